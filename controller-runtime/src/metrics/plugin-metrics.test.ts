import { Counter, Registry } from 'prom-client'
import { describe, expect, expectTypeOf, test } from 'vitest'
import { PluginMetricSet, type PluginMetrics, pluginMetricsDefaults } from './plugin-metrics.ts'

const help = 'For the test.'

function setUp(plugin = 'two-words') {
  const registry = new Registry()
  const metrics = new PluginMetricSet(plugin, registry)
  const lines = async () =>
    (await registry.metrics()).split('\n').filter(line => line !== '' && !line.startsWith('#'))
  return { registry, metrics, lines }
}

test('every metric has the prefix of the plugin', async () => {
  const { metrics, lines } = setUp()
  const sent = metrics.counter({ name: 'mails_total', help, labelNames: ['to'] })
  sent.inc({ to: 'ann' })
  sent.inc({ to: 'ann' }, 2)
  const depth = metrics.gauge({ name: 'depth', help })
  depth.set(5)
  depth.inc()
  depth.dec(3)
  const time = metrics.histogram({ name: 'seconds', help, buckets: [1, 2] })
  time.observe(1.5)
  expect((await lines()).sort()).toEqual([
    'plugin_two_words_depth 3',
    'plugin_two_words_mails_total{to="ann"} 3',
    'plugin_two_words_seconds_bucket{le="+Inf"} 1',
    'plugin_two_words_seconds_bucket{le="1"} 0',
    'plugin_two_words_seconds_bucket{le="2"} 1',
    'plugin_two_words_seconds_count 1',
    'plugin_two_words_seconds_sum 1.5',
  ])
})

test('label sets beyond the bound are dropped and counted; removing one makes room', async () => {
  const { metrics, lines } = setUp()
  const { labelSets } = pluginMetricsDefaults
  const users = metrics.gauge({ name: 'users', help, labelNames: ['id'] })
  for (let id = 0; id < labelSets; id++) users.set({ id }, 1)
  users.set({ id: 'one more' }, 1)
  users.set({ id: 0 }, 2)
  const series = async () => (await lines()).filter(line => line.startsWith('plugin_two_words_users'))
  expect((await series()).length).toBe(labelSets)
  expect(await lines()).toContain('plugin_two_words_users{id="0"} 2')
  expect(await lines()).toContain('plugin_two_words_metrics_dropped_total{metric="users"} 1')
  users.remove({ id: 1 })
  users.set({ id: 'one more' }, 1)
  expect((await series()).length).toBe(labelSets)
  expect(await lines()).toContain('plugin_two_words_users{id="one more"} 1')
})

test('a label value beyond the bound is dropped and counted', async () => {
  const { metrics, lines } = setUp()
  const users = metrics.gauge({ name: 'users', help, labelNames: ['id'] })
  const longest = 'x'.repeat(pluginMetricsDefaults.labelValue)
  users.set({ id: longest }, 1)
  users.set({ id: `${longest}x` }, 1)
  expect((await lines()).sort()).toEqual([
    'plugin_two_words_metrics_dropped_total{metric="users"} 1',
    `plugin_two_words_users{id="${longest}"} 1`,
  ])
})

test('after close the registry no longer has them, and they can be registered again', async () => {
  const { registry, metrics, lines } = setUp()
  new Counter({ name: 'other_total', help, registers: [registry] })
  metrics.counter({ name: 'a_total', help })
  metrics.close()
  expect(await lines()).toEqual(['other_total 0'])
  new PluginMetricSet('two-words', registry).counter({ name: 'a_total', help }).inc()
  expect(await lines()).toEqual(['other_total 0', 'plugin_two_words_a_total 1'])
})

describe('at a reload, the metrics of the new code', () => {
  function reload() {
    const old = setUp()
    old.metrics.counter({ name: 'a_total', help }).inc(7)
    old.metrics.gauge({ name: 'old', help })
    const next = new PluginMetricSet('two-words', old.registry)
    next.counter({ name: 'a_total', help }).inc()
    return { ...old, next }
  }

  test('replace those of the same name, and the others go with the old code', async () => {
    const { metrics, next, lines } = reload()
    expect((await lines()).sort()).toEqual(['plugin_two_words_a_total 1', 'plugin_two_words_old 0'])
    metrics.close()
    expect(await lines()).toEqual(['plugin_two_words_a_total 1'])
    next.close()
    expect(await lines()).toEqual([])
  })

  test('give way to the old ones if the new code fails', async () => {
    const { metrics, next, lines } = reload()
    next.close()
    expect((await lines()).sort()).toEqual(['plugin_two_words_a_total 7', 'plugin_two_words_old 0'])
    metrics.close()
    expect(await lines()).toEqual([])
  })
})

test('a plugin cannot take a metric of the process', () => {
  const { registry, metrics } = setUp()
  new Counter({ name: 'plugin_two_words_a', help, registers: [registry] })
  expect(() => metrics.counter({ name: 'a', help })).toThrow('the metric plugin_two_words_a already exists')
})

test('a plugin cannot take the metric of another one whose name starts alike', () => {
  const { registry, metrics } = setUp('a')
  metrics.counter({ name: 'b_c', help })
  expect(() => new PluginMetricSet('a-b', registry).counter({ name: 'c', help })).toThrow(
    'plugin a-b: the metric plugin_a_b_c already exists',
  )
})

describe('a declaration is refused', () => {
  test.each<[string, (metrics: PluginMetrics) => unknown, string]>([
    ['without fields', m => Reflect.apply(m.counter, m, []), 'a metric needs { name, help, labelNames? }'],
    ['with a bad name', m => m.counter({ name: 'a-b', help }), 'the metric name "a-b" must consist of'],
    ['with a digit first', m => m.gauge({ name: '1a', help }), 'not start with a digit'],
    ['without help', m => m.gauge({ name: 'a', help: '' }), 'a: help must be a sentence'],
    [
      'with an unknown field',
      m => Reflect.apply(m.counter, m, [{ name: 'a', help, labels: ['x'] }]),
      'a: the field "labels" is unknown; valid are name, help, labelNames',
    ],
    [
      'with buckets of a counter',
      m => Reflect.apply(m.counter, m, [{ name: 'a', help, buckets: [1] }]),
      'the field "buckets" is unknown',
    ],
    [
      'with a bad label',
      m => m.gauge({ name: 'a', help, labelNames: ['x-y'] }),
      '"x-y" is not a valid label',
    ],
    ['with the label le', m => m.histogram({ name: 'a', help, labelNames: ['le'] }), '"le" is not a valid'],
    ['with falling buckets', m => m.histogram({ name: 'a', help, buckets: [2, 1] }), 'ascending order'],
    ['with no bucket', m => m.histogram({ name: 'a', help, buckets: [] }), 'a list of 1 to 100 numbers'],
    [
      'with a name that is taken',
      m => [m.gauge({ name: 'a', help }), m.counter({ name: 'a', help })],
      'the metric plugin_two_words_a already exists',
    ],
  ])('%s', (_, declare, message) => {
    expect(() => declare(setUp().metrics)).toThrow(TypeError)
    expect(() => declare(setUp().metrics)).toThrow(message)
  })

  test('beyond the number of metrics of a plugin', () => {
    const { metrics } = setUp()
    for (let n = 0; n < pluginMetricsDefaults.metrics; n++) metrics.gauge({ name: `g_${n}`, help })
    expect(() => metrics.gauge({ name: 'more', help })).toThrow('at most 100 metrics are allowed')
  })
})

test('unknown labels and values that are no finite numbers throw, and count as no label set', async () => {
  const { metrics, lines } = setUp()
  const gauge = metrics.gauge({ name: 'a', help, labelNames: ['x'] })
  // @ts-expect-error the label is not declared
  expect(() => gauge.set({ y: '1' }, 1)).toThrow('the label "y" is not declared; labelNames are ["x"]')
  expect(() => gauge.set({ x: '1' }, Number.NaN)).toThrow('must be a finite number, is NaN')
  expect(() => Reflect.apply(gauge.set, gauge, [{ x: '1' }])).toThrow('must be a finite number')
  expect(() => metrics.counter({ name: 'c', help }).inc(-1)).toThrow()
  expect(await lines()).toEqual(['plugin_two_words_c 0'])
  expectTypeOf(metrics.counter({ name: 'd', help }).inc).toBeCallableWith(1)
})
