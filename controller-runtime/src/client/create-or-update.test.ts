import { describe, expect, test } from 'vitest'
import { MemoryServer } from '../../../test/support/sdk/memory-server.ts'
import { Gadget } from '../../../test/support/sdk/sample-models.ts'
import { ApiError } from '../api/errors.ts'
import type { ObjectOf } from '../api/model.ts'
import { isOwnedBy, setControllerReference } from '../api/owners.ts'
import { createClient } from './create-client.ts'
import type { Draft } from './draft.ts'

function setUp() {
  const server = new MemoryServer()
  const client = createClient(server)
  const writes = () => server.requests.filter(request => !request.startsWith('GET'))
  return { server, client, writes }
}

const path = '/apis/demo.example.com/v1/gadgets'
type GadgetDraft = Draft<ObjectOf<typeof Gadget>>

const sized = (size: number) => (draft: GadgetDraft) => {
  draft.spec.size = size
}
const grow = (draft: GadgetDraft) => {
  draft.spec.size = (draft.spec.size ?? 0) + 1
}

const instantly = { random: () => 0 }

describe('createOrUpdate', () => {
  test('creates a missing object, updates an existing one, and writes nothing without a change', async () => {
    const { client, writes } = setUp()
    const set = (size: number) => client.createOrUpdate(Gadget, 'a', sized(size))
    expect(await set(1)).toMatchObject({ result: 'created', object: { spec: { size: 1 } } })
    const updated = await set(2)
    expect(updated).toMatchObject({ result: 'updated', object: { spec: { size: 2 } } })
    expect(await set(2)).toEqual({ result: 'unchanged', object: updated.object })
    expect(writes()).toEqual([`POST ${path}`, `PUT ${path}/a`])
  })

  test('treats an undefined field as absent', async () => {
    const { client, writes } = setUp()
    await client.create(Gadget, { metadata: { name: 'a' }, spec: { size: 1 } })
    const { result } = await client.createOrUpdate(Gadget, 'a', draft => {
      Object.assign(draft.spec, { colour: undefined })
    })
    expect(result).toBe('unchanged')
    expect(writes()).toHaveLength(1)
  })

  test('gives an object stored without a spec an empty one, and writes nothing if it stays empty', async () => {
    const { server, client, writes } = setUp()
    await client.create(Gadget, { metadata: { name: 'a' }, spec: { size: 1 } })
    delete server.peek('gadgets', 'a')?.spec
    expect((await client.createOrUpdate(Gadget, 'a', () => {})).result).toBe('unchanged')
    expect(writes()).toHaveLength(1)
    expect((await client.createOrUpdate(Gadget, 'a', sized(2))).object.spec).toEqual({ size: 2 })
  })

  test('calls mutate again on the newer object after a conflict', async () => {
    const { client } = setUp()
    await client.create(Gadget, { metadata: { name: 'a' }, spec: { size: 1 } })
    const seen: unknown[] = []
    const { object } = await client.createOrUpdate(
      Gadget,
      'a',
      async draft => {
        seen.push(draft.spec.size)
        if (seen.length === 1) await client.patch(Gadget, 'a', { spec: { size: 5, colour: 'red' } })
        draft.spec.size = (draft.spec.size ?? 0) + 1
      },
      instantly,
    )
    expect(seen).toEqual([1, 5])
    expect(object.spec).toEqual({ size: 6, colour: 'red' })
  })

  test('concurrent increments are not lost', async () => {
    const { client } = setUp()
    await Promise.all(Array.from({ length: 10 }, () => client.createOrUpdate(Gadget, 'a', grow, instantly)))
    expect((await client.get(Gadget, 'a')).spec.size).toBe(10)
  })

  test('starts over if the object is created or deleted meanwhile', async () => {
    const { client } = setUp()
    let calls = 0
    const created = await client.createOrUpdate(
      Gadget,
      'a',
      async draft => {
        if (++calls === 1) await client.create(Gadget, { metadata: { name: 'a' }, spec: { size: 7 } })
        draft.spec.colour = 'red'
      },
      instantly,
    )
    expect(created).toMatchObject({ result: 'updated', object: { spec: { size: 7, colour: 'red' } } })
    calls = 0
    const remade = await client.createOrUpdate(
      Gadget,
      'a',
      async draft => {
        if (++calls === 1) await client.delete(Gadget, 'a')
        draft.spec.colour = 'blue'
      },
      instantly,
    )
    expect(remade).toMatchObject({ result: 'created', object: { spec: { colour: 'blue' } } })
  })

  test('does not retry if the value of a unique index is taken', async () => {
    const { server, client, writes } = setUp()
    const taken = new ApiError('AlreadyExists', 'taken', {
      causes: [{ reason: 'FieldValueDuplicate', message: 'taken', field: 'spec.colour' }],
    })
    server.onRequest = ({ method }) => {
      if (method === 'POST') throw taken
    }
    const attempt = client.createOrUpdate(Gadget, 'a', sized(1), instantly)
    await expect(attempt).rejects.toMatchObject({ reason: 'AlreadyExists' })
    expect(writes()).toHaveLength(1)
  })

  test('rejects with the Conflict after the last attempt, and at once if mutate throws', async () => {
    const { server, client, writes } = setUp()
    await client.create(Gadget, { metadata: { name: 'a' }, spec: { size: 1 } })
    server.onRequest = ({ method }) => {
      if (method === 'PUT') throw new ApiError('Conflict', 'again')
    }
    await expect(
      client.createOrUpdate(Gadget, 'a', sized(2), { ...instantly, attempts: 3 }),
    ).rejects.toMatchObject({ reason: 'Conflict' })
    expect(writes()).toHaveLength(4)
    let calls = 0
    const throwing = client.createOrUpdate(Gadget, 'a', () => {
      calls++
      throw new ApiError('Conflict', 'of another object')
    })
    await expect(throwing).rejects.toThrow('of another object')
    expect(calls).toBe(1)
  })

  test('the status of a draft is read-only and its name must not change', async () => {
    const { client, writes } = setUp()
    const gadget = await client.create(Gadget, { metadata: { name: 'a' }, spec: { size: 1 } })
    await client.patchStatus(Gadget, gadget, { phase: 'Ready' })
    const count = writes().length
    await expect(
      client.createOrUpdate(Gadget, 'a', draft => void Object.assign(draft.status ?? {}, { phase: 'x' })),
    ).rejects.toThrow(TypeError)
    await expect(
      client.createOrUpdate(Gadget, 'a', draft => void Object.assign(draft.metadata, { name: 'b' })),
    ).rejects.toThrow(/name of a/)
    expect(writes()).toHaveLength(count)
  })

  test('the object that mutate returns replaces the draft', async () => {
    const { client, writes } = setUp()
    const owner = await client.create(Gadget, { metadata: { name: 'owner' }, spec: { size: 1 } })
    const owned = () =>
      client.createOrUpdate(Gadget, 'a', draft => {
        draft.spec.size = 2
        return setControllerReference(owner, draft)
      })
    const { result, object } = await owned()
    expect([result, object.spec, isOwnedBy(object, owner)]).toEqual(['created', { size: 2 }, true])
    const count = writes().length
    expect(await owned()).toEqual({ result: 'unchanged', object })
    expect(writes()).toHaveLength(count)
    // Fields that it lacks are removed, except the status.
    const anew = await client.createOrUpdate(
      Gadget,
      'a',
      async ({ apiVersion, kind, metadata: { name } }) => ({
        apiVersion,
        kind,
        metadata: { name },
        spec: { colour: 'red' },
        status: { phase: 'x' },
      }),
    )
    expect(anew).toMatchObject({ result: 'updated', object: { spec: { colour: 'red' } } })
    expect([anew.object.metadata.ownerReferences, anew.object.status]).toEqual([undefined, object.status])
  })

  test('rejects if mutate returns something other than an object, as an arrow function without braces may', async () => {
    const { client, writes } = setUp()
    const wrong: ((draft: GadgetDraft) => unknown)[] = [
      draft => delete draft.spec.size,
      draft => Object.assign(draft.spec, { size: 3 }),
      () => null,
    ]
    for (const mutate of wrong) {
      const attempt = Reflect.apply(client.createOrUpdate, client, [Gadget, 'a', mutate])
      await expect(attempt).rejects.toThrow(/whole object a, or nothing/)
    }
    expect(writes()).toEqual([])
  })

  test('stops when the signal is aborted, also between attempts', async () => {
    const { server, client, writes } = setUp()
    await client.create(Gadget, { metadata: { name: 'a' }, spec: { size: 1 } })
    const abort = new AbortController()
    server.onRequest = ({ method }) => {
      if (method !== 'PUT') return
      abort.abort(new Error('enough'))
      throw new ApiError('Conflict', 'again')
    }
    await expect(client.createOrUpdate(Gadget, 'a', sized(2), { signal: abort.signal })).rejects.toThrow(
      'enough',
    )
    expect(writes()).toHaveLength(2)
  })
})
