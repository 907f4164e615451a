import { get as getHttp, type IncomingMessage } from 'node:http'
import { get as getHttps } from 'node:https'
import { type Clock, linkedSignal, TargetDeniedError, type TargetPolicy } from '@setpoint/controller-runtime'
import type { CheckReason, ProbeState } from './probe.ts'

interface CheckRequest {
  readonly url: string
  /** From the start of the request, with the resolution of the name, to the response headers. */
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
 * Requests a URL once, if the policy allows its target. Failures of the request are a result, not an error.
 *
 * - GET, over a new connection: a kept-alive one would hide that no new one can be made.
 * - Redirects are not followed, since the target may be another server, which the policy was not asked about. To
 *   monitor the target, create a probe for it.
 * - Only the headers matter. The body is not read: the connection is closed.
 *
 * @throws the signal's reason if it is or gets aborted.
 */
export async function checkUrl(
  request: CheckRequest,
  policy: TargetPolicy,
  signal: AbortSignal,
  clock: Clock,
): Promise<CheckResult> {
  const { url, timeoutMs, expectStatus } = request
  signal.throwIfAborted()
  const problem = whyNotRequestable(url)
  if (problem !== undefined) return { state: 'Unknown', reason: 'NotRequestable', message: problem }
  const running = linkedSignal(signal)
  const cancelTimer = clock.setTimeout(() => running.abort(), timeoutMs)
  const startedAt = clock.monotonic()
  try {
    const status = await statusOf(new URL(url), policy, running.signal)
    const latencyMs = Math.round(clock.monotonic() - startedAt)
    return { ...judge(status, expectStatus), httpStatus: status, latencyMs }
  } catch (error) {
    signal.throwIfAborted()
    if (running.signal.aborted) {
      return { state: 'Down', reason: 'TimedOut', message: `no response within ${timeoutMs / 1000} s` }
    }
    return explain(error, new URL(url))
  } finally {
    cancelTimer()
    running.dispose()
  }
}

/** Returns the status of a response, and closes its connection. */
async function statusOf(url: URL, policy: TargetPolicy, signal: AbortSignal): Promise<number> {
  const lookup = await policy.resolve(url.hostname, signal)
  const headers = { accept: '*/*', connection: 'close', 'user-agent': 'setpoint-uptime' }
  const options = { headers, agent: false, lookup, signal }
  const request = url.protocol === 'https:' ? getHttps(url, options) : getHttp(url, options)
  try {
    return await new Promise((resolve, reject) => {
      const respond = ({ statusCode = 0 }: IncomingMessage) => resolve(statusCode)
      request.on('response', respond)
      // A server may switch protocols although it was not asked to. The request no longer owns its socket then.
      request.on('upgrade', (response, socket) => {
        socket.destroy()
        respond(response)
      })
      request.on('error', reject)
    })
  } finally {
    request.destroy()
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

/** Results by the error codes of Node. */
const failures: Readonly<Record<string, readonly [CheckReason, (url: URL) => string]>> = {
  ECONNREFUSED: ['ConnectionRefused', () => 'connection refused'],
  ECONNRESET: ['ConnectionLost', () => 'the connection was reset'],
  EPIPE: ['ConnectionLost', () => 'the connection was closed'],
  ENOTFOUND: ['HostNotFound', ({ hostname }) => `the host name ${hostname} could not be found`],
  EAI_AGAIN: ['HostNotFound', ({ hostname }) => `the host name ${hostname} could not be resolved`],
  EHOSTUNREACH: ['Unreachable', ({ hostname }) => `no route to ${hostname}`],
  ENETUNREACH: ['Unreachable', ({ hostname }) => `the network of ${hostname} cannot be reached`],
  ETIMEDOUT: ['TimedOut', () => 'the connection timed out'],
  HPE_HEADER_OVERFLOW: ['RequestFailed', () => 'the response headers are too large'],
}

function explain(error: unknown, url: URL): CheckResult {
  if (error instanceof TargetDeniedError)
    return { state: 'Unknown', reason: 'Denied', message: `denied: ${error.message}` }
  const text = error instanceof Error ? error.message : String(error)
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  const known = failures[code]
  if (known !== undefined) return { state: 'Down', reason: known[0], message: known[1](url) }
  const isTls = /CERT|SSL|TLS|^EPROTO$|UNABLE_TO_/.test(code)
  return isTls
    ? {
        state: 'Down',
        reason: 'TlsFailed',
        message: `no secure connection: ${oneLine(tlsReason(error) ?? text)}`,
      }
    : { state: 'Down', reason: 'RequestFailed', message: `the request failed: ${oneLine(text)}` }
}

/** The reason in OpenSSL's words, without the thread, function and file names of its messages. */
function tlsReason(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined
  if ('reason' in error && typeof error.reason === 'string') return error.reason
  return /:error:[0-9A-F]+:[^:]*:[^:]*:([^:]+):/.exec(error.message)?.[1]
}

/** Joins lines and truncates. */
function oneLine(text: string): string {
  return text.replace(/\s+/g, ' ').trim().slice(0, 200)
}
