import { context, isSpanContextValid, type Span, SpanStatusCode, trace } from '@opentelemetry/api'

interface ReconcileSpanOptions {
  readonly controller: string
  readonly object: string
  readonly attempt: number
  readonly reason: string | undefined
}

/**
 * Runs `work` in a new span, which ends when `work` settles and is the parent of spans created within it. Without an
 * OpenTelemetry SDK in the process the span is a no-op.
 */
export async function withReconcileSpan<R>(
  { controller, object, attempt, reason }: ReconcileSpanOptions,
  work: (span: Span) => Promise<R>,
): Promise<R> {
  // Looked up for each run, because a plugin may register its provider later, with another copy of the API.
  const span = trace.getTracer('@setpoint/controller-runtime').startSpan(`reconcile ${controller}`, {
    attributes: {
      'setpoint.controller': controller,
      'setpoint.object': object,
      'setpoint.attempt': attempt,
      'setpoint.reason': reason,
    },
  })
  // Without an SDK there is no context to propagate, and propagation would be the cost.
  if (!isSpanContextValid(span.spanContext())) return work(span)
  try {
    return await context.with(trace.setSpan(context.active(), span), work, undefined, span)
  } finally {
    span.end()
  }
}

/** Records how the run ended. */
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
