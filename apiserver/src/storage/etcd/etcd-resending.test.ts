import { constants } from 'node:http2'
import { afterEach, describe, expect, test } from 'vitest'
import { type FakeCall, headerAt, startFakeEtcd } from '../../../../test/support/fake-etcd.ts'
import { OutcomeUnknownError, type Storage, StoreUnavailableError } from '../contract.ts'
import { etcdDefaults, openEtcdStorage } from './index.ts'

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

async function storageOn(handle: (call: FakeCall) => void, deadlineMs = 60_000): Promise<Storage> {
  const etcd = await startFakeEtcd(call => {
    // The first read of each connection, by which the storage asks for the cluster.
    if (call.request.serializable) call.respond({ header: headerAt(1), kvs: [] })
    else handle(call)
  })
  cleanups.push(() => etcd[Symbol.asyncDispose]())
  const storage = await openEtcdStorage({ endpoints: [etcd.endpoint], deadlineMs })
  cleanups.push(() => storage.close())
  return storage
}

const write = { compares: [], onSuccess: [{ type: 'put' as const, key: 'a', value: Buffer.from('1') }] }

/** An etcd that drops all transactions without a response, and supports look-ups of their outcome. */
class LossyEtcd {
  /** Transactions received. */
  sent = 0
  /** Puts of the fence received. */
  fences = 0
  /** Replays of the tip that wait for `replay`. */
  readonly replays: FakeCall[] = []
  readonly #loses: () => boolean
  #revision = 10

  constructor(loses: () => boolean = () => true) {
    this.#loses = loses
  }

  readonly handle = (call: FakeCall): void => {
    if (call.method === 'Watch') {
      call.push({ header: headerAt(this.#revision), created: true, watch_id: '0' })
      this.replays.push(call)
    } else if (call.method === 'Range') {
      call.respond({ header: headerAt(this.#revision), kvs: [] })
    } else if (Array.isArray(call.request.compare) && call.request.compare.length === 0) {
      this.fences += 1
      this.#revision += 1
      call.respond({ header: headerAt(this.#revision), succeeded: true })
    } else {
      this.sent += 1
      if (this.#loses()) call.stream.close(constants.NGHTTP2_INTERNAL_ERROR)
      else call.respond({ header: headerAt(++this.#revision), succeeded: true })
    }
  }

  /** Sends the changes of the tip: only the puts of the fence. */
  replay(): void {
    const mod_revision = String(this.#revision)
    const kv = { key: Buffer.from('/setpoint/tip'), value: Buffer.from('fence'), mod_revision }
    for (const call of this.replays.splice(0))
      call.push({ header: headerAt(this.#revision), watch_id: '0', events: [{ type: 'Put', kv }] })
  }
}

describe('a transaction on etcd without a response', () => {
  test('is sent again a few times, then reported as not happened', async () => {
    const etcd = new LossyEtcd()
    const storage = await storageOn(call => {
      etcd.handle(call)
      etcd.replay()
    })
    await expect(storage.transact(write)).rejects.toBeInstanceOf(StoreUnavailableError)
    expect(etcd.sent).toBe(1 + etcdDefaults.resends)
    expect(etcd.fences).toBe(etcd.sent)
  })

  test('shares its look-up with the others, one at a time', async () => {
    const count = 20
    let losses = 0
    const etcd = new LossyEtcd(() => losses++ < 2 * count)
    const storage = await storageOn(etcd.handle)
    const first = Array.from({ length: count }, () => storage.transact(write))
    await expect.poll(() => etcd.replays.length).toBe(1)
    // Those that were lost too late for the first look-up, and all of the second batch, wait for the next one.
    const second = Array.from({ length: count }, () => storage.transact(write))
    await expect.poll(() => etcd.sent).toBe(2 * count)
    // Round trips on the same connection: a second look-up would have put the fence by now.
    for (let n = 0; n < 5; n++) await storage.head()
    expect(etcd.fences).toBe(1)
    etcd.replay()
    await expect.poll(() => etcd.replays.length).toBe(1)
    expect(etcd.fences).toBe(2)
    etcd.replay()
    const results = await Promise.all([...first, ...second])
    expect(results.every(({ succeeded }) => succeeded)).toBe(true)
    expect(etcd.fences).toBe(2)
  })
})

describe.each([
  ['that cannot be decoded', Buffer.from('0affffffff', 'hex')],
  ['without a header', Buffer.alloc(0)],
  ['with a revision that a number cannot hold', Buffer.from('0a0a18ffffffffffffffff7f', 'hex')],
])('a response of etcd %s', (_, message) => {
  test('makes a read unavailable, and the outcome of a write unknown', async () => {
    const storage = await storageOn(call => {
      call.send(message)
      call.stream.end()
    }, 300)
    const reads = [
      storage.get('a'),
      storage.head(),
      storage.list(''),
      storage.transact({ ...write, onSuccess: [] }),
    ]
    for (const read of await Promise.allSettled(reads))
      expect(read).toMatchObject({ status: 'rejected', reason: expect.any(StoreUnavailableError) })
    await expect(storage.transact(write)).rejects.toBeInstanceOf(OutcomeUnknownError)
  })
})

test('a failure that belongs to no member is reported without an address', async () => {
  const storage = await storageOn(call => call.respond({ kvs: [] }))
  await expect(storage.head()).rejects.toThrow('etcd: the response has no header')
})
