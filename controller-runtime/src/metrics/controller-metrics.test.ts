import { Registry } from 'prom-client'
import { afterEach, expect, test } from 'vitest'
import { type Harness, settle, startHarness } from '../../../test/support/sdk/controller-harness.ts'
import { eventually } from '../../../test/support/sdk/eventually.ts'
import { Gadget } from '../../../test/support/sdk/sample-models.ts'
import type { ObjectOf } from '../api/model.ts'
import type { ControllerBuilder } from '../controller/builder.ts'
import { TerminalError } from '../controller/reconcile.ts'
import { FakeClock } from '../testing/fake-clock.ts'
import { priorities } from '../workqueue/work-queue.ts'
import { ControllerMetrics } from './controller-metrics.ts'
import { ControllerRecorder } from './controller-recorder.ts'

const harnesses: Harness[] = []
afterEach(async () => {
  for (const harness of harnesses.splice(0)) await harness.stop()
})

const controller = 'controller="gadgets.demo.example.com"'
const queue = `name="gadgets.demo.example.com",${controller}`

function setUp(build: (controller: ControllerBuilder<ObjectOf<typeof Gadget>>) => unknown) {
  const registry = new Registry()
  const clock = new FakeClock()
  const harness = startHarness(Gadget, build, { registry, clock })
  harnesses.push(harness)
  /** The values of the series of one name, by their labels. */
  const series = async (name: string): Promise<Record<string, number>> => {
    const found: Record<string, number> = {}
    for (const line of (await registry.metrics()).split('\n')) {
      const [, labels = '', value] = new RegExp(`^${name}\\{([^}]*)\\} (.+)$`).exec(line) ?? []
      if (value !== undefined) found[labels] = Number(value)
    }
    return found
  }
  return { ...harness, clock, registry, series }
}

test('every series exists from the start with value 0', async () => {
  const { series } = setUp(c => c.concurrency(4).reconcile(async () => {}))
  expect(await series('controller_runtime_reconcile_total')).toEqual({
    [`${controller},result="success"`]: 0,
    [`${controller},result="error"`]: 0,
    [`${controller},result="requeue"`]: 0,
    [`${controller},result="requeue_after"`]: 0,
  })
  for (const name of [
    'reconcile_errors_total',
    'terminal_reconcile_errors_total',
    'reconcile_panics_total',
    'reconcile_timeouts_total',
    'active_workers',
    'stale_reads_waited_total',
    'stale_reads_timed_out_total',
    'reconcile_time_seconds_count',
    'reconcile_time_seconds_sum',
  ]) {
    expect([name, await series(`controller_runtime_${name}`)]).toEqual([name, { [controller]: 0 }])
  }
  expect(await series('controller_runtime_max_concurrent_reconciles')).toEqual({ [controller]: 4 })
  for (const name of [
    'adds_total',
    'retries_total',
    'queue_duration_seconds_count',
    'work_duration_seconds_count',
    'unfinished_work_seconds',
    'longest_running_processor_seconds',
  ]) {
    expect([name, await series(`workqueue_${name}`)]).toEqual([name, { [queue]: 0 }])
  }
  expect(await series('workqueue_depth')).toEqual({ [`${queue},priority="0"`]: 0 })
})

test('each outcome of a reconcile is counted under its result', async () => {
  let run = 0
  const {
    client,
    series,
    clock,
    controller: subject,
  } = setUp(c =>
    c.timeoutMs(1000).reconcile(async (_gadget, { signal }) => {
      switch (++run) {
        case 1:
          return
        case 2:
          return { requeueAfterMs: 60_000 }
        case 3:
          throw new Error('not yet')
        case 4:
          throw new TypeError('undefined is not a function')
        case 5:
          throw new TerminalError('never')
        default:
          await new Promise((_resolve, reject) => signal.addEventListener('abort', reject))
      }
    }),
  )
  await client.create(Gadget, { metadata: { name: 'a' }, spec: { size: 1 } })
  await eventually(() => run === 1)
  await client.patch(Gadget, 'a', { spec: { size: 2 } })
  await eventually(() => run === 2)
  await client.patch(Gadget, 'a', { spec: { size: 3 } })
  await eventually(() => run === 3)
  await clock.advance(5)
  await clock.advance(10)
  expect(run).toBe(5)
  await client.patch(Gadget, 'a', { spec: { size: 4 } })
  await eventually(() => run === 6)
  await clock.advance(600)
  expect(await series('controller_runtime_active_workers')).toEqual({ [controller]: 1 })
  expect(await series('workqueue_unfinished_work_seconds')).toEqual({ [queue]: 0.6 })
  expect(await series('workqueue_longest_running_processor_seconds')).toEqual({ [queue]: 0.6 })
  await clock.advance(400)
  await eventually(() => subject.counts.failed === 4)
  expect(await series('controller_runtime_reconcile_total')).toEqual({
    [`${controller},result="success"`]: 1,
    [`${controller},result="error"`]: 4,
    [`${controller},result="requeue"`]: 0,
    [`${controller},result="requeue_after"`]: 1,
  })
  expect(await series('controller_runtime_reconcile_errors_total')).toEqual({ [controller]: 4 })
  expect(await series('controller_runtime_terminal_reconcile_errors_total')).toEqual({ [controller]: 1 })
  expect(await series('controller_runtime_reconcile_panics_total')).toEqual({ [controller]: 1 })
  expect(await series('controller_runtime_reconcile_timeouts_total')).toEqual({ [controller]: 1 })
  expect(await series('controller_runtime_reconcile_time_seconds_sum')).toEqual({ [controller]: 1 })
  expect(await series('workqueue_work_duration_seconds_sum')).toEqual({ [queue]: 1 })
})

test('the queue depth is counted by priority, and the waiting time is measured', async () => {
  let release: () => void = () => {}
  const held = new Promise<void>(resolve => {
    release = resolve
  })
  const { client, series, clock, controller: subject } = setUp(c => c.concurrency(1).reconcile(() => held))
  for (const name of ['a', 'b', 'c']) await client.create(Gadget, { metadata: { name }, spec: { size: 1 } })
  await settle()
  expect(await series('workqueue_depth')).toEqual({ [`${queue},priority="0"`]: subject.queue.depth })
  expect(subject.queue.depth).toBeGreaterThan(0)
  await clock.advance(2_000)
  release()
  await eventually(() => subject.counts.succeeded === 3)
  const buckets = await series('workqueue_queue_duration_seconds_bucket')
  expect(buckets[`${queue},le="1"`]).toBeLessThan(3)
  expect(buckets[`${queue},le="10"`]).toBe(3)
  expect(buckets[`${queue},le="+Inf"`]).toBe(3)
  expect(await series('workqueue_adds_total')).toEqual({ [queue]: 3 })
})

test('priorities beyond the limit share one series', async () => {
  const registry = new Registry()
  const metrics = new ControllerMetrics(registry)
  const depths = new Map(Array.from({ length: 40 }, (_, index) => [-index, 1]))
  metrics.add('x', new ControllerRecorder(), {
    maxConcurrent: 1,
    active: () => 0,
    depths: () => depths,
    workingMs: () => [],
  })
  const text = await registry.metrics()
  expect(text).toContain('workqueue_depth{name="x",controller="x",priority="exceeded_cardinality_limit"} 15')
  expect(text.match(/^workqueue_depth\{/gm)).toHaveLength(26)
  expect(priorities.initial).toBe(-100)
})

test('a removed controller has no series; one that reuses its name has', async () => {
  const { manager, controller: subject, series } = setUp(c => c.reconcile(async () => {}))
  await manager.remove(subject)
  expect(await series('controller_runtime_active_workers')).toEqual({})
  manager.controller(Gadget, c => c.reconcile(async () => {}))
  expect(await series('controller_runtime_active_workers')).toEqual({ [controller]: 0 })
})

test('the registry also returns JSON', async () => {
  const { registry, client, controller: subject } = setUp(c => c.reconcile(async () => {}))
  await client.create(Gadget, { metadata: { name: 'a' }, spec: { size: 1 } })
  await eventually(() => subject.counts.succeeded === 1)
  const histogram = (await registry.getMetricsAsJSON()).find(
    ({ name }) => name === 'controller_runtime_reconcile_time_seconds',
  )
  expect(histogram?.values).toContainEqual({
    metricName: 'controller_runtime_reconcile_time_seconds_count',
    labels: { controller: 'gadgets.demo.example.com' },
    value: 1,
  })
})
