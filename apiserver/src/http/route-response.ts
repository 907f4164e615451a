import { validateHeaderName, validateHeaderValue } from 'node:http'
import type { RouteResponse } from '@setpoint/controller-runtime'
import { isRecord, unknownKeys } from '@setpoint/controller-runtime/api'
import { routeResponseKeys } from '@setpoint/controller-runtime/internal'
import type { Context } from './request-state.ts'

/** Headers that say where a response ends. A wrong one would make the rest of the connection unreadable. */
const framingHeaders: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'keep-alive',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

/** @throws TypeError naming the mistake in what a handler returned */
function checkResponse(response: unknown): asserts response is RouteResponse | undefined | null {
  if (response === undefined || response === null) return
  const prototype: unknown = typeof response === 'object' ? Object.getPrototypeOf(response) : undefined
  if (typeof response !== 'object' || (prototype !== Object.prototype && prototype !== null)) {
    const what = typeof response === 'object' ? (response.constructor?.name ?? 'object') : typeof response
    throw new TypeError(`the handler must return { status?, headers?, body? } or nothing, not a ${what}`)
  }
  const problems = unknownKeys(response, routeResponseKeys, "the handler's result")
  if (problems.length > 0) {
    throw new TypeError(
      `the handler must return { status?, headers?, body? }, with the content in body: ${problems.slice(0, 3).join('; ')}`,
    )
  }
  const { status, headers = {} }: { status?: unknown; headers?: unknown } = response
  if (!isRecord(headers)) throw new TypeError('the headers must be an object of names and values')
  for (const [name, value] of Object.entries(headers)) {
    validateHeaderName(name)
    validateHeaderValue(name, String(value))
    if (framingHeaders.has(name.toLowerCase()))
      throw new TypeError(`the header ${name} must not be set: the server determines it from the body`)
  }
  const isStatus = Number.isInteger(status) && Number(status) >= 200 && Number(status) <= 599
  if (status !== undefined && !isStatus)
    throw new TypeError(`the status must be an integer from 200 to 599, is ${JSON.stringify(status)}`)
}

/** Sends what a handler has returned. @throws TypeError naming the mistake in it */
export function respond(ctx: Context, response: unknown): void {
  checkResponse(response)
  const { status, headers = {}, body } = response ?? {}
  const content = contentOf(body)
  ctx.status = status ?? (body === undefined ? 204 : 200)
  if (content !== undefined) ctx.body = content.bytes
  if (content?.isJson) ctx.type = 'application/json'
  for (const [name, value] of Object.entries(headers)) {
    if (name.toLowerCase() === 'vary') ctx.vary(value)
    else ctx.set(name, value)
  }
  // Koa removes the framing of a response with this status, so only the end of the connection ends it.
  if (ctx.status === 205) ctx.set('connection', 'close')
}

/** @throws TypeError for a body that cannot be sent */
function contentOf(body: unknown): { bytes: string | Buffer; isJson: boolean } | undefined {
  if (body === undefined) return undefined
  if (typeof body === 'string') return { bytes: body, isJson: false }
  if (body instanceof Uint8Array) return { bytes: Buffer.from(body), isJson: false }
  const isStream = typeof body === 'object' && body !== null && Symbol.asyncIterator in body
  const json = isStream ? undefined : JSON.stringify(body)
  if (json === undefined)
    throw new TypeError('the body must be a string, bytes, or a value that JSON can express')
  return { bytes: json, isJson: true }
}
