import { type ApiResponse, headerOf } from './api-request.ts'
import { bodyDefaults, sendBody } from './body-sender.ts'
import { HandshakeResponse } from './handshake-response.ts'
import { headerBytes } from './header-bytes.ts'
import { discardRequestBody } from './request-body.ts'
import type { Context, RequestState } from './request-state.ts'

/** The headers of a request that its response depends on. */
const vary = 'Accept-Encoding, Origin'

const auditIdHeader = 'audit-id'

/**
 * Sends a response past Koa's own sending: a small body in one write, a large one at the client's pace, compressed for
 * a client that prefers gzip.
 */
export async function send(ctx: Context, response: ApiResponse): Promise<void> {
  ctx.respond = false
  try {
    if (ctx.res.destroyed) return
    // A watch has failed after its beginning.
    if (ctx.res instanceof HandshakeResponse && ctx.res.isTaken) ctx.res.connectionSocket.destroy()
    else if (ctx.res.headersSent) ctx.res.destroy()
    else if (response.status >= 400 && !ctx.req.complete) await refuseUnread(ctx, response)
    else if (!sendWhole(ctx, response)) await sendLarge(ctx, response)
  } finally {
    response.release?.()
  }
}

/** Sends a small body uncompressed. Returns false if the response is large, or the client may want it compressed. */
function sendWhole({ req, res, state }: Context, { status, headers, body }: ApiResponse): boolean {
  const length = lengthOf(body)
  const isRead = req.method === 'GET'
  // Small bodies are compressed only for clients that refuse identity, which have to name it or `*`.
  const isPlain = !isRead || !/identity|\*/.test(headerOf(req.headers, 'accept-encoding') ?? '')
  if (length > bodyDefaults.wholeBytes || !isPlain || req.method === 'HEAD') return false
  const fields: Record<string, string | string[] | number> = { 'content-length': length }
  if (isRead) fields.vary = vary
  for (const [name, value] of Object.entries(headers)) fields[name] = headerBytes(value)
  if (state.audit !== undefined) fields[auditIdHeader] = state.audit.id
  res.writeHead(status, fields)
  res.end(wholeOf(body, length))
  return true
}

async function sendLarge(ctx: Context, { status, headers, body }: ApiResponse): Promise<void> {
  const { method, res } = ctx
  const length = lengthOf(body)
  const isRead = method === 'GET' || method === 'HEAD'
  ctx.status = status
  for (const [name, value] of Object.entries(headers)) ctx.set(name, headerBytes(value))
  if (ctx.state.audit !== undefined) ctx.set(auditIdHeader, ctx.state.audit.id)
  if (isRead) ctx.vary(vary)
  const gzip = isRead && takesGzip(ctx, length)
  if (gzip) ctx.set('content-encoding', 'gzip')
  else ctx.length = length
  if (method === 'HEAD') res.end()
  else
    await sendBody(res, Buffer.isBuffer(body) ? [body] : body, {
      gzipFor: gzip ? payerOfResponse(ctx) : undefined,
    })
}

/** Returns whose turns a response takes. Empty for one without a caller, such as a probe's. */
function payerOfResponse({ state }: Context): string {
  const { caller }: Partial<RequestState> = state
  return caller?.payer ?? ''
}

/** Responds to a request whose body has not arrived in full. Its rest must not be taken for the next request. */
async function refuseUnread(
  { req, res, state: { audit } }: Context,
  { status, headers, body }: ApiResponse,
): Promise<void> {
  const length = lengthOf(body)
  const audited = audit && { [auditIdHeader]: audit.id }
  res.writeHead(status, { ...headers, ...audited, connection: 'close', 'content-length': length })
  res.write(wholeOf(body, length))
  await discardRequestBody(req)
  res.end()
}

function lengthOf(body: ApiResponse['body']): number {
  return Buffer.isBuffer(body) ? body.length : body.reduce((sum, part) => sum + part.length, 0)
}

function wholeOf(body: ApiResponse['body'], length: number): Buffer {
  return Buffer.isBuffer(body) ? body : Buffer.concat([...body], length)
}

/** Large bodies are compressed if the client likes gzip as much as identity, small ones if it refuses identity. */
function takesGzip(ctx: Context, length: number): boolean {
  if (ctx.acceptsEncodings('gzip', 'identity') !== 'gzip') return false
  return length > bodyDefaults.gzipBytes || ctx.acceptsEncodings('identity') === false
}
