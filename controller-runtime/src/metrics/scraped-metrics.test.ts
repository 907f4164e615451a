import { Registry } from 'prom-client'
import { expect, it } from 'vitest'
import { ScrapedMetrics } from './scraped-metrics.ts'

it('a metric without labels is absent while it has no sample', async () => {
  const registry = new Registry()
  let value: number | undefined
  new ScrapedMetrics(registry).gauge('size_bytes', 'A size.', [], () =>
    value === undefined ? [] : [[value]],
  )
  expect(await registry.metrics()).not.toMatch(/^size_bytes/m)
  value = 7
  expect(await registry.metrics()).toMatch(/^size_bytes 7$/m)
  value = undefined
  expect(await registry.metrics()).not.toMatch(/^size_bytes/m)
})
