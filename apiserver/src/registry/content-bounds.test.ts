import { ApiError, type ApiObject } from '@setpoint/controller-runtime/api'
import { describe, expect, it } from 'vitest'
import { countReads, openRooms, type Rooms, testModel, thing } from '../../../test/support/rooms.ts'
import { countParts } from '../model/json-text.ts'
import { objectLimits } from '../model/object-limits.ts'
import { noReservations, reservationsWithout } from '../model/reservations.ts'
import { ServedModel } from '../model/served-model.ts'
import { type BareObject, encodeObject, encodeStored } from '../model/stored-object.ts'
import { readClientObject } from './client-object.ts'
import { draftUpdate } from './object-draft.ts'
import { defaultWriteOptions, type WriteResult } from './write-options.ts'

const options = defaultWriteOptions
const parse = ({ bytes }: WriteResult): ApiObject => JSON.parse(bytes.toString())

function times<T>(count: number, make: (n: number) => T): T[] {
  return Array.from({ length: count }, (_, n) => make(n))
}

function labelled(count: number): Record<string, string> {
  return Object.fromEntries(times(count, n => [`label-${n}`, '']))
}

function owner(n: number) {
  return { apiVersion: 'v1', kind: 'Owner', name: 'o', uid: `uid-${n}` }
}

/** Puts an object into the store as an earlier version without bounds could have done. */
async function storeRaw({ storage, served }: Rooms, metadata: object, spec = {}): Promise<void> {
  const object: BareObject = {
    apiVersion: testModel.apiVersion,
    kind: testModel.kind,
    metadata: {
      name: 'old',
      uid: 'u',
      generation: 1,
      creationTimestamp: '2024-01-01T00:00:00.000Z',
      ...metadata,
    },
    spec,
  }
  const value = encodeStored(encodeObject(object), noReservations)
  const put = { type: 'put', key: served.keyOf('old'), value } as const
  await storage.transact({ compares: [], onSuccess: [put] })
}

async function refusal(write: Promise<unknown>): Promise<ApiError> {
  const error = await write.then(
    () => undefined,
    thrown => thrown,
  )
  if (!(error instanceof ApiError)) throw new Error('the write was not refused', { cause: error })
  return error
}

/** Each bounded part, with a function that makes it with this many entries (annotations: bytes). */
const parts: [field: string, limit: number, make: (size: number) => { metadata?: object; spec?: object }][] =
  [
    ['metadata.labels', objectLimits.labels, size => ({ metadata: { labels: labelled(size) } })],
    [
      'metadata.annotations',
      objectLimits.annotationBytes,
      size => ({ metadata: { annotations: { a: 'x'.repeat(size - 1) } } }),
    ],
    [
      'metadata.finalizers',
      objectLimits.finalizers,
      size => ({ metadata: { finalizers: times(size, n => `example.com/f${n}`) } }),
    ],
    [
      'metadata.ownerReferences',
      objectLimits.ownerReferences,
      size => ({ metadata: { ownerReferences: times(size, owner) } }),
    ],
    ['spec.tags', objectLimits.indexValues, size => ({ spec: { tags: times(size, n => `tag-${n}`) } })],
  ]

describe.each(parts)('%s of an object', (field, limit, make) => {
  const body = (name: string, size: number) => {
    const { metadata, spec } = make(size)
    return thing(name, spec, metadata)
  }

  it('is accepted at its bound and refused with 422 past it, with the limit and the count', async () => {
    await using rooms = await openRooms()
    const { registry, served } = rooms
    await registry.create(served, body('a', limit), options)
    for (const write of [
      registry.create(served, body('b', limit + 1), options),
      registry.replace(served, 'a', body('a', limit + 1), 'object', options),
    ]) {
      const { reason, details } = await refusal(write)
      expect([reason, details?.causes?.map(cause => cause.field)]).toEqual(['Invalid', [field]])
      expect(details?.causes?.[0]?.message).toContain(`${limit} `)
      expect(details?.causes?.[0]?.message).toContain(`has ${limit + 1}`)
    }
  })

  it('that are stored past the bound may stay or shrink, but not grow', async () => {
    await using rooms = await openRooms()
    const { registry, served } = rooms
    const { metadata = {}, spec } = make(limit + 10)
    await storeRaw(rooms, metadata, spec)
    const size = async (count: number) =>
      parse(await registry.replace(served, 'old', body('old', count), 'object', options))
    const { code } = await refusal(size(limit + 11))
    expect(code).toBe(422)
    await registry.patch(served, 'old', { type: 'merge', document: { spec: { n: 7 } } }, 'object', options)
    await size(limit + 9)
    expect((await refusal(size(limit + 10))).code).toBe(422)
    expect((await registry.delete(served, 'old', {}, options)).key).toBe('old')
  })
})

describe('the parts of an object', () => {
  const limit = objectLimits.parts
  const tooMany = { reason: 'Invalid', details: { causes: [{ reason: 'FieldValueTooMany' }] } }
  /** A body whose object has so many parts. */
  const body = (name: string, parts: number, metadata: object = {}) => {
    const rest = parts - countParts(thing(name, { map: {}, list: [] }, { ...metadata, ...serverFields }))
    const map = Object.fromEntries(times(Math.ceil(rest / 2), n => [`f${n}`, n]))
    return thing(name, { map, list: times(Math.floor(rest / 2), () => []) }, metadata)
  }
  const serverFields = { uid: '', generation: 1, creationTimestamp: '' }

  it('are accepted at their bound and refused with 422 past it, with the limit and the count', async () => {
    await using rooms = await openRooms()
    const { registry, served } = rooms
    await registry.create(served, body('a', limit), options)
    for (const write of [
      registry.create(served, body('b', limit + 1), options),
      registry.replace(served, 'a', body('a', limit + 1), 'object', options),
    ]) {
      const error = await refusal(write)
      expect(error).toMatchObject(tooMany)
      expect(error.message).toContain(`must have at most ${limit} fields`)
      expect(error.message).toContain(`has ${limit + 1}`)
    }
  })

  it('that are stored past the bound may stay or shrink, but not grow, and the object can go', async () => {
    await using rooms = await openRooms()
    const { registry, served } = rooms
    const { spec }: { spec?: object } = body('old', limit + 1000)
    await storeRaw(rooms, { finalizers: ['example.com/a'] }, spec)
    const patch = (document: object) =>
      registry.patch(served, 'old', { type: 'merge', document }, 'object', options)
    await patch({ spec: { map: { f0: 'other' } } })
    expect(await refusal(patch({ spec: { map: { another: 1 } } }))).toMatchObject(tooMany)
    await patch({ spec: { map: { f0: null } } })
    await registry.delete(served, 'old', {}, options)
    await patch({ metadata: { finalizers: null } })
    expect(await registry.readLive(served, 'old')).toBeUndefined()
  })
})

describe('the values of an object', () => {
  it('are bounded, also if they come with several patches', async () => {
    await using rooms = await openRooms()
    const { registry, served } = rooms
    const half = times(0.6 * objectLimits.values, n => n)
    await registry.create(served, thing('a', { half }), options)
    const patch = { type: 'merge', document: { spec: { other: half } } } as const
    const error = await refusal(registry.patch(served, 'a', patch, 'object', options))
    expect(error).toMatchObject({ reason: 'Invalid', details: { causes: [{ reason: 'FieldValueTooMany' }] } })
    expect(error.message).toContain(`must have at most ${objectLimits.values} list items and fields`)
  })
})

describe('the top-level fields of an object', () => {
  const limit = objectLimits.topLevelFields
  const body = (fields: number) => ({
    ...thing('old'),
    ...Object.fromEntries(times(fields - Object.keys(thing('old')).length, n => [`f${n}`, n])),
  })

  it('are accepted at their bound and refused with 413 past it', async () => {
    await using rooms = await openRooms()
    const { registry, served } = rooms
    expect((await refusal(registry.create(served, body(limit + 1), options))).code).toBe(413)
    await registry.create(served, body(limit), options)
    const patch = (document: object) =>
      registry.patch(served, 'old', { type: 'merge', document }, 'object', options)
    expect((await refusal(patch({ another: 1 }))).code).toBe(413)
    await patch({ f0: null, another: 1 })
  })
})

describe('the managed fields of an object', () => {
  const limit = objectLimits.managedParts
  const body = (name: string, fields: number, value = 1) =>
    thing(name, { map: Object.fromEntries(times(fields, n => [`f${n}`, value])) })
  const apply = (rooms: Rooms, manager: string, document: object) =>
    rooms.registry.apply(rooms.served, 'a', { document, force: false }, 'object', {
      ...options,
      manager: () => manager,
    })
  const tooMany = { details: { causes: [{ reason: 'FieldValueTooMany', field: 'metadata.managedFields' }] } }

  it('of all managers together are bounded', async () => {
    await using rooms = await openRooms()
    expect(await refusal(apply(rooms, 'one', body('a', limit)))).toMatchObject(tooMany)
    await apply(rooms, 'one', body('a', 0.6 * limit))
    // The second manager shares the fields, so that nothing else changes.
    expect(await refusal(apply(rooms, 'two', body('a', 0.6 * limit)))).toMatchObject(tooMany)
    await apply(rooms, 'two', body('a', 0.3 * limit))
    const update = rooms.registry.replace(rooms.served, 'a', body('a', 1.2 * limit, 2), 'object', options)
    expect(await refusal(update)).toMatchObject(tooMany)
  })

  it('past the bound keep no finalizer', async () => {
    await using rooms = await openRooms()
    const fieldsV1 = { 'f:spec': Object.fromEntries(times(limit + 100, n => [`f:${n}`, {}])) }
    const entry = { manager: 'one', operation: 'Apply', apiVersion: testModel.apiVersion, fieldsV1 }
    const managedFields = [{ ...entry, fieldsType: 'FieldsV1' }]
    await storeRaw(rooms, { finalizers: ['example.com/a', 'example.com/b'], managedFields })
    const { registry, served } = rooms
    const patch = { type: 'merge', document: { metadata: { finalizers: ['example.com/b'] } } } as const
    const result = await registry.patch(served, 'old', patch, 'object', options)
    expect(parse(result).metadata.finalizers).toEqual(['example.com/b'])
  })
})

describe('finalizers past their bound', () => {
  it('can be removed one by one, also from an object that is being deleted', async () => {
    await using rooms = await openRooms()
    const finalizers = times(objectLimits.finalizers + 3, n => `example.com/f${n}`)
    await storeRaw(rooms, { finalizers, labels: labelled(objectLimits.labels + 5) })
    const { registry, served } = rooms
    const document = [{ op: 'remove', path: '/metadata/finalizers/0' }]
    await registry.patch(served, 'old', { type: 'json', document }, 'object', options)
    await registry.delete(served, 'old', {}, options)
    const left = parse(await registry.patch(served, 'old', { type: 'json', document }, 'object', options))
    expect(left.metadata.finalizers).toHaveLength(objectLimits.finalizers + 1)
  })
})

describe('the rejection of many violations', () => {
  const bodies: [string, object][] = [
    ['owner references', thing('a', {}, { ownerReferences: times(90_000, () => ({})) })],
    ['finalizers', thing('a', {}, { finalizers: times(90_000, () => '') })],
    ['labels', thing('a', {}, { labels: Object.fromEntries(times(1_000, n => [`-${n}`, '-'])) })],
    ['annotations', thing('a', {}, { annotations: Object.fromEntries(times(90_000, n => [n, 1])) })],
    ['list items', thing('a', { tags: times(90_000, () => 1) })],
  ]

  it.each(bodies)('of %s reports the first hundred and that there are more', async (_part, body) => {
    await using rooms = await openRooms()
    const { message, code, details } = await refusal(rooms.registry.create(rooms.served, body, options))
    expect(code).toBe(422)
    expect(details?.causes).toHaveLength(objectLimits.violations)
    expect(message).toContain('and more than 92 more')
    expect(message.length).toBeLessThan(3000)
  })

  it('quotes only the beginning of a long text', async () => {
    await using rooms = await openRooms()
    const long = '-'.repeat(500_000)
    for (const body of [
      thing(long),
      thing('a', {}, { labels: { [long]: long } }),
      thing('a', {}, { annotations: { [long]: 1 } }),
      thing('a', { [long]: 1, email: long, tags: [long, 1] }),
      { ...thing('a'), [long]: 1, kind: long },
    ]) {
      const strict = { ...options, fieldValidation: 'Strict' } as const
      const error = await refusal(rooms.registry.create(rooms.served, body, strict))
      expect(JSON.stringify(error.toStatus()).length).toBeLessThan(5000)
    }
  })

  it('of unknown top-level fields names the first hundred', async () => {
    await using rooms = await openRooms()
    const body = { ...thing('a'), ...Object.fromEntries(times(900, n => [`f${n}`, n])) }
    const strict = { ...options, fieldValidation: 'Strict' } as const
    const { details } = await refusal(rooms.registry.create(rooms.served, body, strict))
    expect(details?.causes).toHaveLength(objectLimits.violations)
    const warned = await rooms.registry.create(rooms.served, body, { ...options, fieldValidation: 'Warn' })
    expect(warned.warnings).toHaveLength(objectLimits.violations)
  })
})

describe('the work of a write', () => {
  const size = 3000

  it('ends at the first part past its bound, whatever else is wrong', async () => {
    await using rooms = await openRooms()
    const labels = Object.fromEntries(times(200_000, n => [`-${n}`, '']))
    const body = thing('a', { tags: [1], email: 2 }, { labels })
    const { details } = await refusal(rooms.registry.create(rooms.served, body, options))
    expect(details?.causes).toEqual([
      {
        reason: 'FieldValueTooMany',
        field: 'metadata.labels',
        message: 'must have at most 1000 labels, has 200000',
      },
    ])
  })

  it('grows with the number of finalizers, not with its square', () => {
    const served = new ServedModel(testModel)
    const names = times(size, n => `example.com/f${n}`)
    const stored = countReads([...names])
    const sent = countReads([...names])
    const object: BareObject = {
      apiVersion: testModel.apiVersion,
      kind: testModel.kind,
      metadata: {
        name: 'a',
        uid: 'u',
        generation: 1,
        creationTimestamp: '2024-01-01T00:00:00.000Z',
        deletionTimestamp: '2024-01-02T00:00:00.000Z',
        finalizers: stored.list,
      },
      spec: {},
    }
    const client = readClientObject(served.hub, thing('a', {}, { labels: { new: '' }, finalizers: names }))
    client.meta.finalizers = sent.list
    const draft = draftUpdate(
      served,
      { object, reservations: noReservations },
      client,
      'object',
      options,
      'setpoint.dev',
    )
    expect(draft?.object.metadata.labels).toEqual({ new: '' })
    expect(stored.reads() + sent.reads()).toBeLessThan(20 * size)
  })

  it('grows with the number of unique values, not with its square', () => {
    const left = countReads(times(size, n => `l${n}`))
    const right = countReads(times(size, n => `r${n}`))
    expect(reservationsWithout({ i: left.list }, { i: right.list })).toHaveLength(size)
    expect(left.reads() + right.reads()).toBeLessThan(10 * size)
  })
})
