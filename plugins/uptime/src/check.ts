import type { Clock } from '@setpoint/controller-runtime'
import type { CheckReason, ProbeState } from './probe.ts'

export interface CheckRequest {
  readonly url: string
  /** From the connection to the head of the answer. */
  readonly timeoutMs: number
  /** The HTTP status that counts as up; undefined: any from 200 to 399. */
  readonly expectStatus: number | undefined
}

export interface CheckResult {
  readonly state: ProbeState
  readonly reason: CheckReason
  /** For people, without a full stop. */
  readonly message: string
  /** Where an answer came. */
  readonly httpStatus?: number
  /** Milliseconds until the head of the answer had come; where one came. */
  readonly latencyMs?: number
}

/**
 * Requests a URL once and says what that shows. Whatever goes wrong with the request is a result, not an error.
 *
 * - GET, over a connection of its own: one that is kept open would hide that no new one can be made.
 * - A redirect is an answer like any other and is not followed: its target may be another server's, or lead to an
 *   address that the probe's author had no business with. To watch the target, probe the target.
 * - The answer's head decides. Its body is not read, however long it is: the connection is closed.
 *
 * @throws the signal's reason when it is, or becomes, aborted.
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
    // Its outcome is of no interest, only that the connection does not stay open for it.
    response.body?.cancel().catch(() => {})
    return { ...judge(response.status, expectStatus), httpStatus: response.status, latencyMs }
  } catch (error) {
    signal.throwIfAborted()
    if (timeout.signal.aborted) {
      return { state: 'Down', reason: 'TimedOut', message: `no answer within ${timeoutMs / 1000} s` }
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

/** The schema refuses most of this; an object that was stored under another schema may still have it. */
function whyNotRequestable(text: string): string | undefined {
  if (!URL.canParse(text)) return 'the URL is not valid'
  const { protocol, username, password } = new URL(text)
  if (protocol !== 'http:' && protocol !== 'https:') return `the scheme ${protocol} is not http: or https:`
  return username === '' && password === '' ? undefined : 'the URL has a user or password in it'
}

function notRequestable(message: string): CheckResult {
  return { state: 'Unknown', reason: 'NotRequestable', message }
}

/** What the codes mean that Node and its fetch give to failed connections. */
const failures: Readonly<Record<string, readonly [CheckReason, (url: URL) => string]>> = {
  ECONNREFUSED: ['ConnectionRefused', () => 'connection refused'],
  ECONNRESET: ['ConnectionLost', () => 'the connection was reset'],
  EPIPE: ['ConnectionLost', () => 'the connection was closed'],
  UND_ERR_SOCKET: ['ConnectionLost', () => 'the connection was closed before an answer came'],
  ENOTFOUND: ['HostNotFound', ({ hostname }) => `the host name ${hostname} is not known`],
  EAI_AGAIN: ['HostNotFound', ({ hostname }) => `the host name ${hostname} could not be looked up`],
  EHOSTUNREACH: ['Unreachable', ({ hostname }) => `there is no route to ${hostname}`],
  ENETUNREACH: ['Unreachable', ({ hostname }) => `the network of ${hostname} cannot be reached`],
  ETIMEDOUT: ['TimedOut', () => 'the connection timed out'],
  UND_ERR_CONNECT_TIMEOUT: ['TimedOut', () => 'no connection in time'],
  UND_ERR_HEADERS_OVERFLOW: ['RequestFailed', () => 'the head of the answer is too long'],
}

/** `fetch` rejects with a TypeError that says nothing; what happened is its cause. */
function explain(error: unknown, url: URL): CheckResult {
  const cause: unknown = error instanceof Error ? (error.cause ?? error) : error
  const text = cause instanceof Error ? cause.message : String(cause)
  // Ports that the fetch standard blocks, such as 25 (mail): no server was asked.
  if (text === 'bad port') return notRequestable(`port ${url.port} is one that HTTP clients refuse`)
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

/** What OpenSSL says in words; its messages begin with the addresses of threads and source files. */
function tlsReason(cause: unknown): string | undefined {
  const reason: unknown = cause instanceof Error && 'reason' in cause ? cause.reason : undefined
  return typeof reason === 'string' ? reason : undefined
}

/** Some messages have line breaks, and some are long. */
function oneLine(text: string): string {
  return text.replace(/\s+/g, ' ').trim().slice(0, 200)
}
