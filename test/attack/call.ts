import http, { type IncomingHttpHeaders } from 'node:http'
import https from 'node:https'
import type { Target, User } from './target.ts'

/** An attacker's request. */
export interface Call {
  readonly method?: string
  readonly path: string
  /** A user of the token file, another token, or undefined for no token. */
  readonly as?: User | { readonly token: string }
  readonly body?: string | Buffer
  /** Content type of the body. Default application/json. */
  readonly type?: string
  readonly headers?: Readonly<Record<string, string>>
  /** Default: aborts after a minute. */
  readonly signal?: AbortSignal
  /** Stops reading and closes the connection at the first bytes of the body, or after so many milliseconds. */
  readonly abandon?: 'at first bytes' | { readonly afterMs: number }
  /** Default: a connection of its own. */
  readonly agent?: http.Agent
}

export interface Reply {
  /** 0 if there was no response. */
  readonly status: number
  readonly headers: IncomingHttpHeaders
  /** Length of the body that arrived. */
  readonly bytes: number
  /** The beginning of the body, or the reason why there was no response. */
  readonly text: string
}

/** Bytes kept of a response: some attacks get hundreds of megabytes. */
const keptBytes = 256 * 1024

/** Sends a request and reads its response. Never rejects. */
export function call(target: Target, request: Call): Promise<Reply> {
  const { method = 'GET', path, as, body, type = 'application/json', headers = {}, abandon } = request
  const signal = request.signal ?? AbortSignal.timeout(60_000)
  const token = typeof as === 'string' ? target.users.tokenOf(as) : as?.token
  const { request: send } = target.setup.scheme === 'https' ? https : http
  return new Promise(resolve => {
    let status = 0
    let received: IncomingHttpHeaders = {}
    let bytes = 0
    let text = ''
    const done = (why?: string) => {
      clearTimeout(timer)
      resolve({ status, headers: received, bytes, text: status === 0 ? (why ?? 'abandoned') : text })
    }
    const sent = send(`${target.url}${path}`, {
      method,
      agent: request.agent ?? false,
      rejectUnauthorized: false,
      headers: {
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(body !== undefined && { 'content-type': type, 'content-length': Buffer.byteLength(body) }),
        ...headers,
      },
      signal,
    })
    const leave = () => {
      sent.destroy()
      done()
    }
    const timer = typeof abandon === 'object' ? setTimeout(leave, abandon.afterMs) : undefined
    sent.on('response', response => {
      status = response.statusCode ?? 0
      received = response.headers
      response.on('data', (part: Buffer) => {
        bytes += part.length
        if (text.length < keptBytes) text += part.toString('latin1')
        if (abandon === 'at first bytes') leave()
      })
      response.on('close', () => done())
    })
    sent.on('error', error => done(String(error)))
    sent.on('close', () => done())
    sent.end(body)
  })
}

/** Sends requests with limited concurrency. */
export async function callAll(
  target: Target,
  requests: Iterable<Call>,
  concurrency: number,
): Promise<Reply[]> {
  const replies: Reply[] = []
  const rest = requests[Symbol.iterator]()
  const work = async () => {
    for (let next = rest.next(); !next.done; next = rest.next()) replies.push(await call(target, next.value))
  }
  await Promise.all(Array.from({ length: concurrency }, work))
  return replies
}

/** Counts statuses, as `200 ×12, 429 ×3`; 0 is no response. */
export function statusesOf(replies: readonly Reply[]): string {
  const counts = new Map<number, number>()
  for (const { status } of replies) counts.set(status, (counts.get(status) ?? 0) + 1)
  return [...counts].map(([status, count]) => `${status} ×${count}`).join(', ')
}
