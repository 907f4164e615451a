import { context, SpanStatusCode, trace } from '@opentelemetry/api'
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base'
import { afterEach, expect, test } from 'vitest'
import { startHarness } from '../../../test/support/sdk/controller-harness.ts'
import { eventually } from '../../../test/support/sdk/eventually.ts'
import { Gadget } from '../../../test/support/sdk/sample-models.ts'

afterEach(() => {
  trace.disable()
  context.disable()
})

test('each reconcile is a span with controller, object, reason and outcome', async () => {
  const exporter = new InMemorySpanExporter()
  trace.setGlobalTracerProvider(
    new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }),
  )
  const ids: string[] = []
  const harness = startHarness(Gadget, c =>
    c.retry({ maxAttempts: 2 }).reconcile(async (_gadget, { reconcileId, attempt }) => {
      ids.push(reconcileId)
      if (attempt === 1) throw new Error('not yet')
    }),
  )
  await harness.client.create(Gadget, { metadata: { name: 'a' }, spec: { size: 1 } })
  await eventually(() => harness.controller.counts.succeeded === 1)
  await harness.stop()
  const spans = exporter.getFinishedSpans()
  expect(spans).toMatchObject([
    {
      name: 'reconcile gadgets.demo.example.com',
      attributes: {
        'setpoint.controller': 'gadgets.demo.example.com',
        'setpoint.object': 'a',
        'setpoint.attempt': 1,
        'setpoint.reason': expect.stringMatching(/^(added|initial)$/),
        'setpoint.reconcile_id': ids[0],
        'setpoint.result': 'error',
      },
      status: { code: SpanStatusCode.ERROR, message: 'not yet' },
      events: [{ name: 'exception' }],
    },
    {
      attributes: {
        'setpoint.attempt': 2,
        'setpoint.reason': 'retry',
        'setpoint.reconcile_id': ids[1],
        'setpoint.result': 'success',
      },
      status: { code: SpanStatusCode.UNSET },
      events: [],
    },
  ])
})

test('without an SDK, reconciles run normally', async () => {
  const harness = startHarness(Gadget, c => c.reconcile(async () => {}))
  await harness.client.create(Gadget, { metadata: { name: 'a' }, spec: { size: 1 } })
  await eventually(() => harness.controller.counts.succeeded === 1)
  await harness.stop()
})
