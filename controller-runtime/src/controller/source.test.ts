import { afterEach, expect, test } from 'vitest'
import { type Harness, settle, startHarness } from '../../../test/support/sdk/controller-harness.ts'
import { eventually } from '../../../test/support/sdk/eventually.ts'
import { Gadget } from '../../../test/support/sdk/sample-models.ts'
import type { ObjectOf } from '../api/model.ts'
import { sleep } from '../clock.ts'
import { type Logger, silentLogger } from '../logger.ts'
import { FakeClock } from '../testing/fake-clock.ts'
import { every, type Source, type SourceItem, sourceDefaults } from './source.ts'

type GadgetObject = ObjectOf<typeof Gadget>

const harnesses: Harness[] = []
afterEach(async () => {
  for (const harness of harnesses.splice(0)) await harness.stop()
})

/** Gadgets a and b, reconciled; `runs` has the names of later runs. */
async function setUp(source: Source<GadgetObject>, clock = new FakeClock()) {
  const runs: string[] = []
  const lines: string[] = []
  const add = (_fields: object, message: string) => void lines.push(message)
  const log: Logger = { ...silentLogger, warn: add, error: add, child: () => log }
  let open: () => void = () => {}
  const opened = new Promise<void>(resolve => {
    open = resolve
  })
  const gated = async function* (items: AsyncIterable<SourceItem>) {
    await opened
    yield* items
  }
  const given: Source<GadgetObject> =
    typeof source === 'function' ? (signal, context) => gated(source(signal, context)) : gated(source)
  const harness = startHarness(
    Gadget,
    c => c.source(given).reconcile(async gadget => void runs.push(gadget.metadata.name)),
    { clock, log },
  )
  harnesses.push(harness)
  for (const name of ['a', 'b'])
    await harness.client.create(Gadget, { metadata: { name }, spec: { size: 1 } })
  await eventually(() => runs.length === 2)
  runs.length = 0
  open()
  return { ...harness, clock, runs, lines }
}

test('the names that a source yields are reconciled', async () => {
  const { runs } = await setUp(async function* () {
    yield 'a'
    yield { name: 'b' }
    yield 'nobody'
    await new Promise(() => {})
  })
  await eventually(() => runs.length === 2)
  expect(runs).toEqual(['a', 'b'])
})

test.each([Number.NaN, 'high'])(
  'a source that yields the priority %s fails, and delays nothing',
  async priority => {
    const source: unknown = async function* () {
      yield { name: 'a', priority }
    }
    const { client, runs, lines } = await setUp(source as Source<GadgetObject>)
    await eventually(() => lines.includes('event source failed'))
    await client.patch(Gadget, 'b', { spec: { size: 2 } })
    await eventually(() => runs.length > 0)
    expect(runs).toEqual(['b'])
  },
)

test('every() yields every object after each interval', async () => {
  const { runs, clock } = await setUp(every(60_000))
  await settle()
  await clock.advance(59_999)
  expect(runs).toEqual([])
  await clock.advance(1)
  expect(runs.splice(0).sort()).toEqual(['a', 'b'])
  await clock.advance(60_000)
  expect(runs.splice(0).sort()).toEqual(['a', 'b'])
  expect(() => every(0)).toThrow(TypeError)
})

test.each<[how: string, begin: () => AsyncIterable<SourceItem>]>([
  [
    'fails',
    async function* () {
      yield 'a'
      throw new Error('the other system is away')
    },
  ],
  [
    'ends',
    async function* () {
      yield 'a'
    },
  ],
  [
    'cannot even be begun',
    () => {
      throw new Error('no')
    },
  ],
  [
    'yields something other than a name',
    async function* () {
      yield JSON.parse('{"noName":true}')
    },
  ],
  [
    'yields an unknown key',
    async function* () {
      yield JSON.parse('{"name":"b","priorty":1}')
    },
  ],
])(
  'a function whose source %s is called again with back-off, and the controller continues',
  async (_how, begin) => {
    const clock = new FakeClock()
    let begun = 0
    const { client, runs, lines } = await setUp(() => {
      begun++
      return begin()
    }, clock)
    await settle()
    await clock.advance(600_000)
    // 600 pauses of a second without back-off, 10 of a minute with it.
    expect(begun).toBeGreaterThan(8)
    expect(begun).toBeLessThan(120)
    expect(lines.length).toBeGreaterThanOrEqual(begun)
    runs.length = 0
    await client.patch(Gadget, 'b', { spec: { size: 2 } })
    await eventually(() => runs.includes('b'))
  },
)

test('a plain iterable is read once', async () => {
  let begun = 0
  const { runs, clock } = await setUp(
    (async function* () {
      begun++
      yield 'a'
    })(),
  )
  await eventually(() => runs.length === 1)
  await clock.advance(3_600_000)
  expect(begun).toBe(1)
  expect(runs).toEqual(['a'])
})

test('an endless source is paused at the backlog limit, and does not block runs', async () => {
  let given = 0
  let release: () => void = () => {}
  const held = new Promise<void>(resolve => {
    release = resolve
  })
  const runs: string[] = []
  const harness = startHarness(Gadget, c =>
    c
      .concurrency(1)
      .timeoutMs(Number.POSITIVE_INFINITY)
      .source(async function* () {
        // No such objects: they only fill the queue.
        for (;;) yield `x${given++}`
      })
      .reconcile(async gadget => {
        runs.push(gadget.metadata.name)
        if (gadget.metadata.name === 'a') await held
      }),
  )
  harnesses.push(harness)
  await harness.client.create(Gadget, { metadata: { name: 'a' }, spec: { size: 1 } })
  await eventually(() => runs.length === 1 && given >= sourceDefaults.backlog)
  await settle()
  expect(given).toBeLessThanOrEqual(sourceDefaults.backlog + 1)
  expect(harness.controller.queue.depth).toBe(sourceDefaults.backlog)
  release()
  await eventually(() => given > 2 * sourceDefaults.backlog)
})

test('stop aborts the signal of a source, and does not wait for one that ignores it', async () => {
  let aborted = false
  let closed = false
  const heeding: Source<GadgetObject> = async function* (signal, { clock }) {
    try {
      yield 'a'
      await sleep(clock, 3_600_000, signal)
    } finally {
      aborted = signal.aborted
      closed = true
    }
  }
  const { stop, runs } = await setUp(heeding)
  await eventually(() => runs.length === 1)
  const deaf = await setUp(async function* () {
    yield 'a'
    await new Promise(() => {})
  })
  await eventually(() => deaf.runs.length === 1)
  await Promise.all([stop(), deaf.stop()])
  expect([aborted, closed]).toEqual([true, true])
})

test('on standby a controller reads no source and starts no run; when restarted, it does both again', async () => {
  let begun = 0
  let ended = 0
  const { controller, client, runs } = await setUp(async function* (signal, { clock }) {
    begun++
    try {
      yield 'a'
      await sleep(clock, 3_600_000, signal)
    } finally {
      ended++
    }
  })
  await eventually(() => runs.length === 1)
  controller.standBy(new Error('no longer the leader'))
  await eventually(() => ended === 1)
  await client.patch(Gadget, 'b', { spec: { size: 2 } })
  await settle()
  expect(runs).toEqual(['a'])
  runs.length = 0
  controller.start()
  await eventually(() => begun === 2 && runs.length >= 2)
  expect(new Set(runs)).toEqual(new Set(['a', 'b']))
})
