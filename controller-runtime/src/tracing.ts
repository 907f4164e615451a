import { context, ProxyTracerProvider, propagation, type Span, SpanKind, trace } from '@opentelemetry/api'

export type { Span }

/** What the API has as long as no SDK has registered a provider. */
const noProvider = new ProxyTracerProvider().getDelegate()

/**
 * Returns true if an OpenTelemetry SDK has registered a provider. Asked for each request, because a plugin may register
 * one later, with another copy of the API. Starting a span that does nothing would cost a hundred times as much.
 */
function isTracing(): boolean {
  const provider = trace.getTracerProvider()
  return !(provider instanceof ProxyTracerProvider) || provider.getDelegate() !== noProvider
}

/**
 * Adds the context of the active span to the headers of a request, if an OpenTelemetry SDK has registered a propagator.
 */
export function injectTraceContext(headers: Record<string, string>): void {
  propagation.inject(context.active(), headers)
}

interface TracedRequest {
  readonly method: string
  /** The path, with or without a query, which may have secrets and is left out. */
  readonly target: string
  /** They may name the span of the client. Undefined for a request within the process. */
  readonly headers?: Readonly<Record<string, string | string[] | undefined>>
}

/**
 * Runs `work` in a new span of a request, which ends when `work` settles and is the parent of spans created within it.
 * Without an OpenTelemetry SDK in the process there is no span, and `work` gets undefined.
 */
export function withRequestSpan<R>(
  { method, target, headers }: TracedRequest,
  work: (span: Span | undefined) => Promise<R>,
): Promise<R> {
  if (!isTracing()) return work(undefined)
  const [path] = target.split('?', 1)
  const active = context.active()
  const parent = headers === undefined ? active : propagation.extract(active, headers)
  const kind = headers === undefined ? SpanKind.INTERNAL : SpanKind.SERVER
  const attributes = { 'http.request.method': method, 'url.path': path }
  const span = trace.getTracer('@setpoint/controller-runtime').startSpan(method, { kind, attributes }, parent)
  return context.with(trace.setSpan(parent, span), work, undefined, span).finally(() => span.end())
}
