import type { Clock } from '@setpoint/controller-runtime'
import type { CheckReason, ProbeState } from './probe.ts'

interface CheckRequest {
  readonly url: string
  /** From the start of the request to the response headers. */
  readonly timeoutMs: number
  /** The HTTP status that counts as up; undefined means 200 to 399. */
  readonly expectStatus: number | undefined
}

export interface CheckResult {
  readonly state: ProbeState
  readonly reason: CheckReason
  /** For people, without a full stop. */
  readonly message: string
  /** Absent without a response. */
  readonly httpStatus?: number
  /** Milliseconds until the response headers arrived; absent without a response. */
  readonly latencyMs?: number
}

/**
 * Requests a URL once. Failures of the request are a result, not an error.
 *
 * - GET, over a new connection: a kept-alive one would hide that no new one can be made.
 * - Redirects are not followed, since the target may be another server, or an address that the probe's author must not
 *   reach. To monitor the target, create a probe for it.
 * - Only the headers matter. The body is not read: the connection is closed.
 *
 * @throws the signal's reason if it is or gets aborted.
 */
export async function checkUrl(
  request: CheckRequest,
  signal: AbortSignal,
  clock: Clock,
): Promise<CheckResult> {
  const { url, timeoutMs, expectStatus } = request
  signal.throwIfAborted()
  const problem = whyNotRequestable(url)
  if (problem !== undefined) return notRequestable(problem)
  const timeout = new AbortController()
  const cancelTimer = clock.setTimeout(() => timeout.abort(), timeoutMs)
  const startedAt = clock.monotonic()
  try {
    const response = await fetch(url, {
      redirect: 'manual',
      headers: { accept: '*/*', connection: 'close', 'user-agent': 'setpoint-uptime' },
      signal: AbortSignal.any([signal, timeout.signal]),
    })
    const latencyMs = Math.round(clock.monotonic() - startedAt)
    // Closes the connection; the outcome does not matter.
    response.body?.cancel().catch(() => {})
    return { ...judge(response.status, expectStatus), httpStatus: response.status, latencyMs }
  } catch (error) {
    signal.throwIfAborted()
    if (timeout.signal.aborted) {
      return { state: 'Down', reason: 'TimedOut', message: `no response within ${timeoutMs / 1000} s` }
    }
    return explain(error, new URL(url))
  } finally {
    cancelTimer()
  }
}

function judge(status: number, expected: number | undefined): Omit<CheckResult, 'httpStatus' | 'latencyMs'> {
  const isUp = expected === undefined ? status >= 200 && status <= 399 : status === expected
  if (isUp) return { state: 'Up', reason: 'Answered', message: `HTTP ${status}` }
  const wanted = expected === undefined ? 'one from 200 to 399' : String(expected)
  return { state: 'Down', reason: 'UnexpectedStatus', message: `HTTP ${status}, expected ${wanted}` }
}

/** The schema rejects most of this, but an object may have been stored under another schema. */
function whyNotRequestable(text: string): string | undefined {
  if (!URL.canParse(text)) return 'the URL is not valid'
  const { protocol, username, password } = new URL(text)
  if (protocol !== 'http:' && protocol !== 'https:') return `the scheme ${protocol} is not http: or https:`
  return username === '' && password === '' ? undefined : 'the URL must not have a user or password'
}

function notRequestable(message: string): CheckResult {
  return { state: 'Unknown', reason: 'NotRequestable', message }
}

/** Results by the error codes of Node and its fetch. */
const failures: Readonly<Record<string, readonly [CheckReason, (url: URL) => string]>> = {
  ECONNREFUSED: ['ConnectionRefused', () => 'connection refused'],
  ECONNRESET: ['ConnectionLost', () => 'the connection was reset'],
  EPIPE: ['ConnectionLost', () => 'the connection was closed'],
  UND_ERR_SOCKET: ['ConnectionLost', () => 'the connection was closed before the response'],
  ENOTFOUND: ['HostNotFound', ({ hostname }) => `the host name ${hostname} could not be found`],
  EAI_AGAIN: ['HostNotFound', ({ hostname }) => `the host name ${hostname} could not be resolved`],
  EHOSTUNREACH: ['Unreachable', ({ hostname }) => `no route to ${hostname}`],
  ENETUNREACH: ['Unreachable', ({ hostname }) => `the network of ${hostname} cannot be reached`],
  ETIMEDOUT: ['TimedOut', () => 'the connection timed out'],
  UND_ERR_CONNECT_TIMEOUT: ['TimedOut', () => 'the connection timed out'],
  UND_ERR_HEADERS_OVERFLOW: ['RequestFailed', () => 'the response headers are too large'],
}

/** Explains an error of `fetch`, which is a TypeError with the actual error as its cause. */
function explain(error: unknown, url: URL): CheckResult {
  const cause: unknown = error instanceof Error ? (error.cause ?? error) : error
  const text = cause instanceof Error ? cause.message : String(cause)
  // The fetch standard blocks some ports, such as 25 (mail).
  if (text === 'bad port') return notRequestable(`HTTP clients block port ${url.port}`)
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : ''
  const known = failures[code]
  if (known !== undefined) return { state: 'Down', reason: known[0], message: known[1](url) }
  const isTls = /CERT|SSL|TLS|^EPROTO$|UNABLE_TO_/.test(code)
  return isTls
    ? {
        state: 'Down',
        reason: 'TlsFailed',
        message: `no secure connection: ${oneLine(tlsReason(cause) ?? text)}`,
      }
    : { state: 'Down', reason: 'RequestFailed', message: `the request failed: ${oneLine(text)}` }
}

/** The reason in OpenSSL's words, without the thread and file names that its messages start with. */
function tlsReason(cause: unknown): string | undefined {
  const reason: unknown = cause instanceof Error && 'reason' in cause ? cause.reason : undefined
  return typeof reason === 'string' ? reason : undefined
}

/** Joins lines and truncates. */
function oneLine(text: string): string {
  return text.replace(/\s+/g, ' ').trim().slice(0, 200)
}
