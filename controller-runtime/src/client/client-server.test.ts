import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { PlainGadget } from '../../../test/support/sdk/sample-models.ts'
import { ApiError, isAlreadyExists, isConflict, isExpired, isInvalid, isNotFound } from '../api/errors.ts'
import { multiValueIndex, singleValueIndex } from '../api/index-spec.ts'
import { defineModel } from '../api/model.ts'
import { startTestServer, type TestServer } from '../testing/test-server.ts'
import type { Client } from './client.ts'
import { createClient } from './create-client.ts'
import type { HttpTransport } from './http-transport.ts'

/** Runs against the real server, in its process and over sockets: plugins must behave the same over both. */

const Widget = defineModel({
  group: 'demo.example.com',
  version: 'v1',
  kind: 'Widget',
  singular: 'widget',
  plural: 'widgets',
  schema: {
    spec: {
      type: 'object',
      required: ['size'],
      properties: {
        size: { type: 'integer', minimum: 0 },
        code: { type: 'string' },
        tags: { type: 'array', items: { type: 'string' } },
        shape: { type: 'string', default: 'round' },
      },
    },
    status: { type: 'object', properties: { phase: { type: 'string' } } },
  },
  subresources: { status: true },
  indexes: [
    singleValueIndex({ name: 'spec.code', unique: true, indexFunc: widget => widget.spec.code }),
    multiValueIndex({ name: 'spec.tags', indexFunc: widget => widget.spec.tags ?? [] }),
  ],
})

let server: TestServer
let http: HttpTransport

beforeAll(async () => {
  server = await startTestServer({ models: [Widget, PlainGadget] })
  http = await server.httpTransport()
})
afterAll(async () => {
  http.close()
  await server.close()
})

const refusalOf = (promise: Promise<unknown>): Promise<ApiError> =>
  promise.then(
    () => {
      throw new Error('was not refused')
    },
    (error: unknown) => {
      if (error instanceof ApiError) return error
      throw error
    },
  )

async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = []
  for await (const item of items) all.push(item)
  return all
}

describe.each(['in process', 'over HTTP'])('a client %s', way => {
  let client: Client

  beforeAll(() => {
    client = createClient(way === 'in process' ? server.transport : http)
  })
  beforeEach(async () => {
    for (const { metadata } of (await server.client.list(Widget)).items) {
      if (metadata.finalizers)
        await server.client.patch(Widget, metadata.name, { metadata: { finalizers: null } })
      await server.client.delete(Widget, metadata.name).catch(() => {})
    }
  })
  const create = (name: string, size = 1, more: { code?: string; tags?: string[] } = {}) =>
    client.create(Widget, { metadata: { name }, spec: { size, ...more } })

  test('tells onWarning of fields that the schema does not have, in any script', async () => {
    const warnings: string[] = []
    const warned = createClient(way === 'in process' ? server.transport : http, {
      onWarning: (warning, { method }) => warnings.push(`${method}: ${warning}`),
    })
    const made = await create('a')
    await warned.patchStatus(Widget, made, JSON.parse('{"phaze": "Ready", "имя": 1}'))
    await warned.get(Widget, 'a')
    expect(warnings).toEqual(['PATCH: unknown field "status.phaze"', 'PATCH: unknown field "status[имя]"'])
  })

  test('reads objects with the schema defaults, and distinguishes a missing object from an unknown kind', async () => {
    const made = await create('a', 3)
    expect(made.spec).toEqual({ size: 3, shape: 'round' })
    expect(await client.get(Widget, 'a')).toEqual(made)
    expect(await client.getIfExists(Widget, 'b')).toBeUndefined()
    const missing = await refusalOf(client.get(Widget, 'b'))
    expect([isNotFound(missing), missing.code, missing.details?.name]).toEqual([true, 404, 'b'])
    const Unserved = { ...Widget, plural: 'others' }
    expect(isNotFound(await refusalOf(client.getIfExists(Unserved, 'b')))).toBe(true)
  })

  test('distinguishes a taken name, a taken unique value, an outdated version and an invalid object', async () => {
    const made = await create('a', 1, { code: 'x' })
    const name = await refusalOf(create('a'))
    expect([isAlreadyExists(name), name.details?.causes]).toEqual([true, undefined])
    const value = await refusalOf(create('b', 1, { code: 'x' }))
    expect(isAlreadyExists(value)).toBe(true)
    expect(value.details?.causes).toMatchObject([{ reason: 'FieldValueDuplicate' }])
    await client.update(Widget, { ...made, spec: { size: 2 } })
    expect(isConflict(await refusalOf(client.update(Widget, { ...made, spec: { size: 3 } })))).toBe(true)
    const broken = await refusalOf(create('c', -1))
    expect(isInvalid(broken)).toBe(true)
    expect(broken.details?.causes).toMatchObject([{ field: 'spec.size' }])
  })

  test('lists by selectors, sort and page, and iterates over all pages of one version', async () => {
    for (const name of ['c', 'a', 'b', 'e', 'd']) {
      await create(name, 1, { tags: name < 'd' ? ['low'] : [] })
    }
    const page = await client.list(Widget, {
      fieldSelector: 'spec.tags=low',
      sort: 'metadata.name,desc',
      page: 1,
      size: 2,
    })
    expect(page.items.map(item => item.metadata.name)).toEqual(['c', 'b'])
    expect(page).toMatchObject({ total: 3, totalPages: 2, hasNext: true })
    const within = await client.list(Widget, { fieldSelector: ['metadata.name>=b', 'metadata.name<e'] })
    expect(within.items.map(item => item.metadata.name).sort()).toEqual(['b', 'c', 'd'])
    const names: string[] = []
    for await (const item of client.items(Widget, { pageSize: 2 })) {
      // Objects written during the iteration are not part of it.
      if (names.length === 0) await create('late')
      names.push(item.metadata.name)
    }
    expect(names).toEqual(['a', 'b', 'c', 'd', 'e'])
    const sorted = await collect(client.items(Widget, { pageSize: 2, sort: 'metadata.name,desc' }))
    expect(sorted.map(item => item.metadata.name)).toEqual(['late', 'e', 'd', 'c', 'b', 'a'])
    expect((await refusalOf(client.list(Widget, { fieldSelector: 'spec.none=x' }))).reason).toBe('BadRequest')
  })

  test('supports both patch types and preconditions, and keeps the status separate', async () => {
    const made = await create('a', 1, { tags: ['x'] })
    expect((await client.patch(Widget, 'a', { spec: { size: 2, tags: null } })).spec).toEqual({
      size: 2,
      shape: 'round',
    })
    const grown = await client.patch(Widget, 'a', [{ op: 'replace', path: '/spec/size', value: 5 }])
    expect(grown.spec.size).toBe(5)
    expect(
      isConflict(await refusalOf(client.patch(Widget, 'a', {}, { version: made.metadata.version }))),
    ).toBe(true)
    const other = { ...made, metadata: { ...made.metadata, uid: '00000000-0000-4000-8000-000000000000' } }
    expect(isConflict(await refusalOf(client.patch(Widget, other, { spec: { size: 9 } })))).toBe(true)
    await client.patchStatus(Widget, grown, { phase: 'Ready' })
    const after = await client.get(Widget, 'a')
    expect([after.spec.size, after.status]).toEqual([5, { phase: 'Ready' }])
    expect(after.metadata.generation).toBe(grown.metadata.generation)
  })

  test('createOrUpdate writes nothing if the object is already as desired', async () => {
    const set = (size: number) =>
      client.createOrUpdate(Widget, 'a', draft => {
        draft.spec = { size }
      })
    expect((await set(1)).result).toBe('created')
    // The draft lacks the default that the server adds, so the stored object does not change.
    const again = await set(1)
    expect([again.result, again.object.spec]).toEqual(['unchanged', { size: 1, shape: 'round' }])
    expect((await set(2)).result).toBe('updated')
  })

  test('apply sets the desired fields, keeps the others, and writes nothing if all are set', async () => {
    await create('a', 2)
    const desired = {
      metadata: { name: 'a', labels: { 'demo.example.com/by': 'me' } },
      spec: { tags: ['x'] },
    }
    const applied = await client.apply(Widget, desired)
    expect(applied.spec).toEqual({ size: 2, shape: 'round', tags: ['x'] })
    expect(await client.apply(Widget, desired)).toEqual(applied)
    const larger = { metadata: { name: 'a' }, spec: { size: 8 } }
    const dry = await client.apply(Widget, larger, { dryRun: true, force: true })
    expect(dry.spec.size).toBe(8)
    expect(await client.get(Widget, 'a')).toEqual(applied)
  })

  test('a dry run of a creation returns the object without a version, and stores nothing', async () => {
    const desired = { metadata: { name: 'a' }, spec: { size: 1 } }
    const dryRun = { dryRun: true }
    const updated = await client.createOrUpdate(
      Widget,
      'a',
      draft => {
        draft.spec = { size: 1 }
      },
      dryRun,
    )
    for (const made of [
      await client.create(Widget, desired, dryRun),
      await client.apply(Widget, desired, dryRun),
      updated.object,
    ]) {
      expect(made.spec).toEqual({ size: 1, shape: 'round' })
      expect(made.metadata).toMatchObject({ name: 'a', version: '', resourceVersion: '' })
    }
    expect(await client.getIfExists(Widget, 'a')).toBeUndefined()
    // The empty version is no precondition.
    const made = await client.create(Widget, await client.create(Widget, desired, dryRun))
    expect(made.metadata.version).toMatch(/^\d+$/)
  })

  test('apply creates the object, removes what is no longer desired, and conflicts with other managers', async () => {
    const made = await client.apply(Widget, { metadata: { name: 'a' }, spec: { size: 1, code: 'x' } })
    expect(made.metadata.managedFields?.map(({ manager, operation }) => [manager, operation])).toEqual([
      ['setpoint-client', 'Apply'],
    ])
    const other = { fieldManager: 'other' }
    const wanted = { metadata: { name: 'a' }, spec: { size: 2 } }
    const refusal = await refusalOf(client.apply(Widget, wanted, other))
    expect(isConflict(refusal) && refusal.details?.causes).toEqual([
      {
        reason: 'FieldManagerConflict',
        message: 'conflict with "setpoint-client"',
        field: '.spec.size',
      },
    ])
    await client.apply(Widget, wanted, { ...other, force: true })
    const left = await client.apply(Widget, { metadata: { name: 'a' }, spec: {} })
    expect(left.spec).toEqual({ size: 2, shape: 'round' })
    const { uid } = left.metadata
    expect(isConflict(await refusalOf(client.apply(Widget, { metadata: { name: 'a', uid: 'old' } })))).toBe(
      true,
    )
    await client.apply(Widget, { metadata: { name: 'a', uid, version: left.metadata.version } })
  })

  test('applyStatus owns fields of the status only, and the model must have the subresource', async () => {
    await create('a', 2)
    const status = { metadata: { name: 'a' }, status: { phase: 'Ready' } }
    const applied = await client.applyStatus(Widget, status, { fieldManager: 'me' })
    expect([applied.spec.size, applied.status]).toEqual([2, { phase: 'Ready' }])
    const entry = applied.metadata.managedFields?.find(({ manager }) => manager === 'me')
    expect(entry).toMatchObject({ subresource: 'status', fieldsV1: { 'f:status': { 'f:phase': {} } } })
    const plain = { metadata: { name: 'a' }, status: {} }
    await expect(client.applyStatus(PlainGadget, plain)).rejects.toThrow(TypeError)
  })

  test('concurrent increments are not lost', async () => {
    await create('a', 0)
    await Promise.all(
      Array.from({ length: 8 }, () =>
        client.createOrUpdate(Widget, 'a', draft => {
          draft.spec.size = (draft.spec.size ?? 0) + 1
        }),
      ),
    )
    expect((await client.get(Widget, 'a')).spec.size).toBe(8)
  })

  test('delete honors preconditions, waits for finalizers, and completes when the last one is removed', async () => {
    const made = await client.create(Widget, {
      metadata: { name: 'a', finalizers: ['demo.example.com/keep'] },
      spec: { size: 1 },
    })
    const wrong = { preconditions: { uid: '00000000-0000-4000-8000-000000000000' } }
    expect(isConflict(await refusalOf(client.delete(Widget, 'a', wrong)))).toBe(true)
    const { uid, version } = made.metadata
    const deleting = await client.delete(Widget, 'a', { preconditions: { uid, version } })
    expect(deleting?.metadata.deletionTimestamp).toBeDefined()
    await client.patch(Widget, 'a', { metadata: { finalizers: null } })
    expect(await client.getIfExists(Widget, 'a')).toBeUndefined()
    expect(isNotFound(await refusalOf(client.delete(Widget, 'a')))).toBe(true)
  })

  test('rejects unknown fields with fieldValidation=Strict', async () => {
    const spec: { size: number } = JSON.parse('{"size": 1, "sise": 2}')
    const strict = client.create(Widget, { metadata: { name: 'a' }, spec }, { fieldValidation: 'Strict' })
    expect((await refusalOf(strict)).message).toContain('sise')
  })

  test('a watch sends the existing objects, then each change; a version never reached is Expired', async () => {
    await create('a')
    const abort = new AbortController()
    const stream = await client.watch(Widget, { signal: abort.signal })
    const told: string[] = []
    for await (const event of stream) {
      if (event.type === 'ERROR') throw ApiError.fromResponse(event.object.code, event.object)
      told.push(event.type === 'BOOKMARK' ? 'BOOKMARK' : `${event.type} ${event.object.metadata.name}`)
      if (told.length === 2) await create('b')
      if (told.length === 3) await client.delete(Widget, 'a')
      if (told.length === 4) abort.abort()
    }
    expect(told).toEqual(['ADDED a', 'BOOKMARK', 'ADDED b', 'DELETED a'])
    expect((await stream.end).code).toBe(1000)
    const future = await client.watch(Widget, { version: '999999999' })
    for await (const event of future) {
      expect(
        event.type === 'ERROR' && isExpired(ApiError.fromResponse(event.object.code, event.object)),
      ).toBe(true)
    }
    expect((await future.end).code).toBe(4410)
    expect((await refusalOf(client.watch(Widget, { labelSelector: 'a in b' }))).reason).toBe('BadRequest')
  })

  test('sends nothing after its signal is aborted, and rejects with the reason', async () => {
    const signal = AbortSignal.abort(new Error('enough'))
    const attempts = [
      client.get(Widget, 'a', { signal }),
      client.list(Widget, { signal }),
      collect(client.items(Widget, { signal })),
      client.create(Widget, { metadata: { name: 'a' }, spec: { size: 1 } }, { signal }),
      client.patch(Widget, 'a', {}, { signal }),
      client.delete(Widget, 'a', { signal }),
      client.createOrUpdate(Widget, 'a', () => {}, { signal }),
      client.watch(Widget, { signal }),
    ]
    await Promise.all(attempts.map(attempt => expect(attempt).rejects.toThrow('enough')))
    expect(await client.getIfExists(Widget, 'a')).toBeUndefined()
  })

  test('writes status and spec together if the model has no status subresource', async () => {
    const name = way === 'in process' ? 'p' : 'q'
    const plain = await client.create(PlainGadget, { metadata: { name }, spec: { a: 1 } })
    const { object, result } = await client.createOrUpdate(PlainGadget, name, draft => {
      draft.spec.a = 2
    })
    expect(result).toBe('updated')
    await client.updateStatus(PlainGadget, { ...object, status: { phase: 'Ready' } })
    expect(await client.get(PlainGadget, name)).toMatchObject({
      metadata: { uid: plain.metadata.uid },
      spec: { a: 2 },
      status: { phase: 'Ready' },
    })
  })
})
