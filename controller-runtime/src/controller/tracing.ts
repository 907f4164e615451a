import { context, isSpanContextValid, type Span, SpanStatusCode, trace } from '@opentelemetry/api'

/** Does nothing, and costs next to nothing, unless the process installs an OpenTelemetry SDK. */
const tracer = trace.getTracer('@setpoint/controller-runtime')

export interface ReconcileSpanOptions {
  readonly controller: string
  readonly object: string
  readonly attempt: number
  readonly reason: string | undefined
}

/** Runs `work` within a span of its own, which ends when it has settled; what it does below is the span's child. */
export async function withReconcileSpan<R>(
  { controller, object, attempt, reason }: ReconcileSpanOptions,
  work: (span: Span) => Promise<R>,
): Promise<R> {
  const span = tracer.startSpan(`reconcile ${controller}`, {
    attributes: {
      'setpoint.controller': controller,
      'setpoint.object': object,
      'setpoint.attempt': attempt,
      ...(reason !== undefined && { 'setpoint.reason': reason }),
    },
  })
  // Without an SDK there is nothing to hand down, and handing it down is what would cost.
  if (!isSpanContextValid(span.spanContext())) return work(span)
  try {
    return await context.with(trace.setSpan(context.active(), span), work, undefined, span)
  } finally {
    span.end()
  }
}

/** Says how the run of the span ended. */
export function recordResult(span: Span, result: string, error: unknown): void {
  span.setAttribute('setpoint.result', result)
  if (error === undefined) return
  const exception = error instanceof Error ? error : String(error)
  span.recordException(exception)
  span.setStatus({
    code: SpanStatusCode.ERROR,
    message: exception instanceof Error ? exception.message : exception,
  })
}
