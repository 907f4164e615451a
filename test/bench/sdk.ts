import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { createManager, defineModel, type Transport, WorkQueue } from '@setpoint/controller-runtime'
import { initialEventsEndAnnotation } from '@setpoint/controller-runtime/internal'
import { startTestServer } from '@setpoint/controller-runtime/testing'
import { rounds } from './items.ts'
import type { Row } from './table.ts'

const objects = 100_000

const Item = defineModel({
  group: 'sdk.example.com',
  version: 'v1',
  kind: 'Item',
  singular: 'item',
  plural: 'items',
  schema: { spec: { type: 'object', properties: { text: { type: 'string' }, n: { type: 'integer' } } } },
})

/** Absolute aims of the SDK: each measurement and its limit. */
export async function sdk(): Promise<Row[]> {
  return [
    {
      name: 'queue: add, get and done of a key with 100,000 queued, processor time',
      unit: 'µs',
      ...(await queue()),
    },
    {
      name: 'reconciles that do nothing, a second of processor time',
      unit: '1/s',
      ...(await noOps()),
    },
    { name: 'informer: heap for each of 100,000 objects of 771 bytes', unit: 'B', ...(await heap()) },
    ...(await latencies()),
  ]
}

/** Returns the milliseconds of processor time that this process has used since. Other processes do not count. */
function processorTime(): () => number {
  const before = process.cpuUsage()
  return () => {
    const { user, system } = process.cpuUsage(before)
    return (user + system) / 1000
  }
}

/** Rounds of one measurement against a constant. The first one warms up and does not count. */
async function against(
  constant: number,
  aim: NonNullable<Row['aim']>,
  measure: () => Promise<number>,
): Promise<Pick<Row, 'ours' | 'peer' | 'aim'>> {
  const ours: number[] = []
  await measure()
  for (let round = 0; round < rounds; round++) ours.push(await measure())
  return { ours, peer: ours.map(() => constant), aim }
}

function queue() {
  const keys = Array.from({ length: objects }, (_, index) => `object-${index}`)
  return against(2, { atMost: 1 }, async () => {
    const work = new WorkQueue()
    for (const key of keys) work.add(`queued-${key}`)
    const spentMs = processorTime()
    for (const key of keys) work.add(key)
    for (let count = 0; count < objects; count++) {
      const item = await work.get()
      if (item !== undefined) work.done(item.key)
    }
    return (spentMs() * 1000) / objects
  })
}

/** A server with this many items of 771 bytes and no changes. */
function still(count: number): Transport {
  const json = (name: string, text: string) => {
    const metadata = {
      name,
      uid: '8f14e45f-ceea-467f-a8b5-3c5e1a2b7d90',
      version: '1000',
      resourceVersion: '1000',
      generation: 1,
      creationTimestamp: '2030-01-01T00:00:00.000Z',
      labels: { 'app.example.com/name': name, tier: 'front' },
    }
    const object = { apiVersion: Item.apiVersion, kind: Item.kind, metadata, spec: { text, n: 1 } }
    return JSON.stringify(object)
  }
  const name = (index: number) => `item-${String(index).padStart(6, '0')}`
  const text = 'x'.repeat(771 - json(name(0), '').length)
  return {
    request: () => Promise.reject(new Error('no request is expected')),
    watch: async (_path, { signal }) => {
      const ended = new Promise<void>(resolve =>
        signal.addEventListener('abort', () => resolve(), { once: true }),
      )
      return {
        end: ended.then(() => ({ code: 1000, reason: '' })),
        close() {},
        async *[Symbol.asyncIterator]() {
          for (let index = 0; index < count; index++) {
            yield `{"type":"ADDED","object":${json(name(index), text)}}`
          }
          const annotations = { [initialEventsEndAnnotation]: 'true' }
          const metadata = { version: '1000', resourceVersion: '1000', annotations }
          const object = { apiVersion: Item.apiVersion, kind: Item.kind, metadata }
          yield JSON.stringify({ type: 'BOOKMARK', object })
          await ended
        },
      }
    },
  }
}

/** The informer is filled before. This measures the queue, the runs and their bookkeeping. */
async function noOps() {
  const manager = createManager({ transport: still(objects) })
  manager.informer(Item)
  manager.start()
  await manager.synced()
  const measured = await against(50_000, { atLeast: 1 }, async () => {
    let left = objects
    let remove = async () => {}
    const finished = new Promise<number>(resolve => {
      const spentMs = processorTime()
      const controller = manager.controller(Item, c =>
        c.reconcile(async () => {
          if (--left > 0) return
          resolve(spentMs())
        }),
      )
      remove = () => manager.remove(controller)
    })
    const ms = await finished
    await remove()
    return (objects * 1000) / ms
  })
  await manager.stop()
  return measured
}

setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')

async function heapBytes(): Promise<number> {
  // The objects of the last run become unreachable one turn later.
  await new Promise(resolve => setTimeout(resolve, 50))
  collectGarbage()
  return process.memoryUsage().heapUsed
}

function heap() {
  return against(1.3 * 1024, { atMost: 1 }, async () => {
    const before = await heapBytes()
    const manager = createManager({ transport: still(objects) })
    manager.informer(Item)
    manager.start()
    await manager.synced()
    const bytes = ((await heapBytes()) - before) / objects
    await manager.stop()
    return bytes
  })
}

/** 1,000 changes per second for five seconds on a real server in this process, with a store that skips fsync. */
async function latencies(): Promise<Row[]> {
  const perSecond = 1_000
  const seconds = 5
  const acknowledged: number[] = []
  const sent: number[] = []
  for (let round = -1; round < rounds; round++) {
    const { sinceSent, sinceAnswer } = await oneRound(perSecond, seconds)
    if (round < 0) continue
    sent.push(p99(sinceSent))
    acknowledged.push(p99(sinceAnswer))
  }
  const five = sent.map(() => 5)
  const name = 'change to its reconcile, real server in process, 1,000 changes a second, p99'
  return [
    {
      name: `${name}, from the server's response`,
      unit: 'ms',
      ours: acknowledged,
      peer: five,
      aim: { atMost: 1 },
    },
    {
      name: `${name}, from the sending`,
      unit: 'ms',
      ours: sent,
      peer: five,
    },
  ]
}

async function oneRound(perSecond: number, seconds: number) {
  await using server = await startTestServer({ models: [Item] })
  const { client } = server
  /** When each object's current change was sent and when its response arrived, by name. */
  const pending = new Map<string, { n: number; sentAt: number; answeredAt: number; ranAt: number }>()
  const sinceSent: number[] = []
  const sinceAnswer: number[] = []
  const note = (name: string) => {
    const change = pending.get(name)
    if (change === undefined || Number.isNaN(change.answeredAt) || Number.isNaN(change.ranAt)) return
    pending.delete(name)
    sinceSent.push(change.ranAt - change.sentAt)
    sinceAnswer.push(Math.max(0, change.ranAt - change.answeredAt))
  }
  const manager = server.manager()
  manager.controller(Item, c =>
    c.reconcile(async ({ metadata: { name }, spec: { n = 0 } }) => {
      const change = pending.get(name)
      if (change === undefined || n < change.n || !Number.isNaN(change.ranAt)) return
      change.ranAt = performance.now()
      note(name)
    }),
  )
  manager.start()
  const names = Array.from({ length: perSecond }, (_, index) => `item-${index}`)
  await Promise.all(names.map(name => client.create(Item, { metadata: { name }, spec: { n: 0 } })))
  const writes: Promise<void>[] = []
  const began = performance.now()
  for (let count = 0; count < perSecond * seconds; ) {
    const due = Math.min(perSecond * seconds, ((performance.now() - began) * perSecond) / 1000)
    for (; count < due; count++) {
      const name = names[count % perSecond] ?? ''
      const n = 1 + Math.floor(count / perSecond)
      const change = { n, sentAt: performance.now(), answeredAt: Number.NaN, ranAt: Number.NaN }
      pending.set(name, change)
      writes.push(
        client.patch(Item, name, { spec: { n } }).then(() => {
          change.answeredAt = performance.now()
          note(name)
        }),
      )
    }
    await new Promise(resolve => setTimeout(resolve, 1))
  }
  await Promise.all(writes)
  while (pending.size > 0) await new Promise(setImmediate)
  return { sinceSent, sinceAnswer }
}

function p99(values: readonly number[]): number {
  const sorted = [...values].sort((left, right) => left - right)
  return sorted[Math.floor(sorted.length * 0.99)] ?? Number.NaN
}
