import { afterEach, describe, expect, expectTypeOf, test } from 'vitest'
import { eventually } from '../../../test/support/sdk/eventually.ts'
import { bookmark, Gadget, gadget } from '../../../test/support/sdk/sample-models.ts'
import {
  type Refusal,
  ScriptedWatchServer,
  type WatchScript,
} from '../../../test/support/sdk/scripted-watch-server.ts'
import type { ObjectOf } from '../api/model.ts'
import { createClient } from '../client/create-client.ts'
import { HttpTransport } from '../client/http-transport.ts'
import { setCondition } from '../conditions.ts'
import { Lease } from '../kinds/lease.ts'
import { FakeClock } from '../testing/fake-clock.ts'
import { until } from './until.ts'
import { WaitTimeoutError, waitFor } from './wait-for.ts'

const cleanUps: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp()
})

async function setUp(...scripts: (WatchScript | Refusal)[]) {
  const server = await ScriptedWatchServer.start(scripts)
  const transport = new HttpTransport({ server: server.url })
  cleanUps.push(
    () => server.stop(),
    () => transport.close(),
  )
  return { server, client: createClient(transport) }
}

const watcher = { backoffBaseMs: 2, backoffMaxMs: 5 }
const big = (object: ObjectOf<typeof Gadget> | undefined) => (object?.spec.size ?? 0) >= 10
const added = (version: number, size: number) => ({ type: 'ADDED', object: gadget('a', version, { size }) })
const modified = (version: number, size: number) => ({
  type: 'MODIFIED',
  object: gadget('a', version, { size }),
})
const deleted = (version: number) => ({ type: 'DELETED', object: gadget('a', version) })

describe('waitFor', () => {
  test('throws at once for a namespaced kind without the namespace, and asks nothing', async () => {
    const { server, client } = await setUp()
    await expect(waitFor(client, Lease, 'a', until.exists)).rejects.toThrow(
      new TypeError(
        'leases.coordination.k8s.io are in namespaces: give the key <namespace>/<name> instead of "a", or use client.inNamespace(namespace)',
      ),
    )
    await expect(waitFor(client, Gadget, '', until.exists)).rejects.toThrow('must not be empty')
    expect(server.attempts).toEqual([])
  })

  test('throws for a condition that was not called, which would hold at once', async () => {
    const { client } = await setUp(watch => {
      watch.send(added(5, 10))
      watch.send(bookmark(7, true))
    })
    await expect(Reflect.apply(waitFor, undefined, [client, Gadget, 'a', until.deleted])).rejects.toThrow(
      new TypeError('the condition returned a function: call it, as in until.deleted()'),
    )
  })

  test('returns at once if the condition holds, using one watch of one name, which it closes', async () => {
    const { server, client } = await setUp(watch => {
      watch.send(added(5, 10))
      watch.send(bookmark(7, true))
    })
    const clock = new FakeClock()
    const object = await waitFor(client, Gadget, 'a', big, { timeoutMs: 5_000, clock })
    expect(clock.pendingTimers).toBe(0)
    expect(object?.metadata.version).toBe('5')
    expect(server.attempts.map(String)).toEqual(['http://localhost/apis/demo.example.com/v1/gadgets/a'])
    expect(await server.watches[0]?.closed).toBe(1000)
  })

  test('returns the first state that satisfies the condition, also after a disconnect', async () => {
    const { server, client } = await setUp(
      watch => {
        watch.send(bookmark(7, true))
        watch.send(added(8, 1))
        watch.close(1011)
      },
      watch => {
        watch.send(modified(9, 10))
        watch.send(modified(10, 11))
      },
    )
    expect((await waitFor(client, Gadget, 'a', big, { watcher }))?.metadata.version).toBe('9')
    expect(server.watches.map(watch => watch.version)).toEqual([null, '8'])
  })

  test('a deleted object counts as missing, also if only a new list shows it', async () => {
    const { client } = await setUp(watch => {
      watch.send(added(5, 1))
      watch.send(bookmark(7, true))
      watch.send(deleted(8))
    })
    expect(await waitFor(client, Gadget, 'a', until.any(big, until.deleted()))).toBeUndefined()
    const relisting = await setUp(
      watch => {
        watch.send(added(5, 1))
        watch.send(bookmark(7, true))
        watch.close(4410)
      },
      watch => watch.send(bookmark(20, true)),
    )
    expect(await waitFor(relisting.client, Gadget, 'a', until.deleted(), { watcher })).toBeUndefined()
  })

  test('rejects at the timeout with the last observed state, and closes its watch', async () => {
    const { server, client } = await setUp(watch => {
      watch.send(added(5, 1))
      watch.send(bookmark(7, true))
    })
    const clock = new FakeClock()
    let looked = 0
    const waiting = waitFor(client, Gadget, 'a', () => ++looked > 1, { timeoutMs: 5_000, clock })
    const rejected = expect(waiting).rejects.toThrow(
      'Gadget a: condition not met within 5000 ms: the object is at version 5',
    )
    await eventually(() => looked === 1)
    await clock.advance(5_000)
    await rejected
    await expect(waiting).rejects.toThrow(WaitTimeoutError)
    expect(await server.watches[0]?.closed).toBe(1000)
  })

  test('rejects with the reason of the signal when aborted', async () => {
    const { client } = await setUp({ status: 503 })
    const abort = new AbortController()
    const waiting = waitFor(client, Gadget, 'a', until.exists, { signal: abort.signal })
    abort.abort(new Error('enough'))
    await expect(waiting).rejects.toThrow('enough')
    await expect(waitFor(client, Gadget, 'a', until.exists, { signal: abort.signal })).rejects.toThrow(
      'enough',
    )
  })

  test('rejects with the error of the condition', async () => {
    const { server, client } = await setUp(watch => watch.send(bookmark(7, true)))
    const failing = () => {
      throw new Error('mine')
    }
    await expect(waitFor(client, Gadget, 'a', failing)).rejects.toThrow('mine')
    expect(await server.watches[0]?.closed).toBe(1000)
  })
})

describe('conditions', () => {
  const object = gadget('a', 5)
  const deleting = {
    ...object,
    metadata: { ...object.metadata, deletionTimestamp: '2030-01-01T00:00:00.000Z' },
  }

  test('exists, deleting and deleted', () => {
    expect([until.exists(object), until.exists(undefined)]).toEqual([true, false])
    expect([until.deleting()(object), until.deleting()(deleting), until.deleting()(undefined)]).toEqual([
      false,
      true,
      false,
    ])
    const { uid } = object.metadata
    expect([until.deleted()(undefined), until.deleted()(object), until.deleted(uid)(deleting)]).toEqual([
      true,
      false,
      false,
    ])
    expect(until.deleted('another-uid')(object)).toBe(true)
  })

  test('condition, with observedGeneration', () => {
    const saying = (status: 'True' | 'False', observedGeneration?: number) => ({
      ...object,
      metadata: { ...object.metadata, generation: 2 },
      status: {
        conditions: setCondition(
          [],
          { type: 'Ready', status, ...(observedGeneration !== undefined && { observedGeneration }) },
          new FakeClock(),
        ),
      },
    })
    expect(until.condition('Ready')(saying('True'))).toBe(true)
    expect(until.condition('Ready')(saying('True', 2))).toBe(true)
    expect(until.condition('Ready')(saying('True', 1))).toBe(false)
    expect(until.condition('Ready')(saying('False'))).toBe(false)
    expect(until.condition('Ready', 'False')(saying('False'))).toBe(true)
    expect(until.condition('Other')(saying('True'))).toBe(false)
    const { generation: _generation, ...ofBuiltIn } = object.metadata
    expect(until.condition('Ready')({ ...saying('True', 1), metadata: ofBuiltIn })).toBe(true)
    expect(until.condition('Ready')(object)).toBe(false)
    expect(until.condition('Ready')(undefined)).toBe(false)
  })

  test('composition', () => {
    const yes = () => true
    const no = () => false
    expect(until.not(yes)(object)).toBe(false)
    expect([until.all(yes, yes)(object), until.all(yes, no)(object), until.all()(object)]).toEqual([
      true,
      false,
      true,
    ])
    expect([until.any(no, yes)(object), until.any(no, no)(object), until.any()(object)]).toEqual([
      true,
      false,
      false,
    ])
  })

  test('narrow the type of the result to an existing object', () => {
    const client = createClient(new HttpTransport({ server: 'http://127.0.0.1:1' }))
    const signal = AbortSignal.abort()
    const ready = () => waitFor(client, Gadget, 'a', until.condition('Ready'), { signal })
    const gone = () => waitFor(client, Gadget, 'a', until.deleted(), { signal })
    const both = () => waitFor(client, Gadget, 'a', until.all(big, until.not(until.deleting())), { signal })
    type G = ObjectOf<typeof Gadget>
    expectTypeOf(ready).returns.resolves.toEqualTypeOf<G>()
    expectTypeOf(gone).returns.resolves.toEqualTypeOf<G | undefined>()
    expectTypeOf(both).returns.resolves.toEqualTypeOf<G | undefined>()
  })
})
