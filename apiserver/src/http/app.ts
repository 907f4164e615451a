import { createServer, type IncomingMessage, type Server, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { Router } from '@koa/router'
import { ApiError } from '@setpoint/controller-runtime/api'
import Koa from 'koa'
import type { Logger } from '../log.ts'
import type { Metrics, RequestRecord } from '../metrics/index.ts'
import type { ModelRegistry } from '../model/model-registry.ts'
import type { ServedModel } from '../model/served-model.ts'
import { retryAfterSeconds } from '../registry/index.ts'
import { checkLocalAccess, localUser } from '../security/index.ts'
import type { WatchHub } from '../watch/index.ts'
import {
  type ApiResponse,
  type Caller,
  headerOf,
  parseResourcePath,
  type ResourcePath,
  requestLimits,
} from './api-request.ts'
import { bodyDefaults, sendBody } from './body-sender.ts'
import type { CustomRoutes } from './custom-routes.ts'
import { group, groupList, resourceList } from './discovery.ts'
import { errorResponse, methodNotAllowed, toApiError } from './error-response.ts'
import type { Health, HealthAnswer } from './health.ts'
import { negotiates } from './media-type.ts'
import { discardRequestBody, readRequestBody } from './request-body.ts'
import type { ResourceApi } from './resource-api.ts'
import { versionInfo } from './version-info.ts'
import { readWatchRequest } from './watch-parameters.ts'
import { WatchSockets } from './watch-socket.ts'
import { StreamSink } from './watch-stream.ts'

/** The header by which a plugin's client says whose it is. */
const pluginHeader = 'x-setpoint-plugin'

const noQuery = new URLSearchParams()

export interface AppParts {
  readonly models: ModelRegistry
  readonly api: ResourceApi
  readonly routes: CustomRoutes
  readonly hub: WatchHub
  readonly health: Health
  readonly metrics: Metrics
  readonly log: Logger
  /** Whether plugins have yet to say what they serve, so that nothing below /apis can be denied. */
  readonly isStarting: () => boolean
  /** Before every path: '' or '/x'. */
  readonly basePath: string
}

export const appDefaults = Object.freeze({
  /** Milliseconds that an idle connection is kept: above those of ordinary load balancers, which must not meet a closed one. */
  keepAliveMs: 75_000,
})

/** The HTTP server: finds out what a request is about and hands it on; knows every refusal's form. */
export class App {
  readonly server: Server
  readonly #parts: AppParts
  readonly #sockets: WatchSockets
  readonly #system: Router

  constructor(parts: AppParts) {
    this.#parts = parts
    this.#sockets = new WatchSockets(parts.hub, (socket, why) =>
      refuseUpgrade(
        socket,
        errorResponse(new ApiError('BadRequest', `the handshake is not one of WebSocket: ${why}`), {
          'sec-websocket-version': '13',
        }),
      ),
    )
    this.#system = this.#systemRoutes()
    const koa = new Koa()
    koa.use(ctx => this.#serve(ctx))
    koa.on('error', error => parts.log.debug({ err: error }, 'an answer could not be sent'))
    const answer = koa.callback()
    this.server = createServer({ maxHeaderSize: requestLimits.headerBytes }, answer)
    this.server.keepAliveTimeout = appDefaults.keepAliveMs
    this.server.on('upgrade', (message, socket, head) => {
      if (mayIgnoreUpgrade(message)) answerInPlace(message, socket, answer)
      else void this.#upgrade(message, socket, head)
    })
    this.server.on('error', error => parts.log.error({ err: error }, 'a connection could not be accepted'))
    this.server.on('clientError', (error, socket) => refuseBrokenRequest(error, socket))
  }

  /** Drops the sockets that have not closed by themselves. */
  close(): void {
    this.#sockets.close()
    this.server.closeAllConnections()
  }

  async #serve(ctx: Koa.Context): Promise<void> {
    const record = this.#parts.metrics.requests.begin(ctx.method)
    let response: ApiResponse | undefined
    try {
      response = await this.#respond(ctx, record)
    } catch (thrown) {
      const error = toApiError(thrown, this.#parts.log, { method: ctx.method, path: ctx.req.url })
      response = errorResponse(error)
      if (!ctx.req.complete && !ctx.res.headersSent) {
        record.answered(response.status)
        return refuseUnread(ctx, response)
      }
    }
    // A client that had gone before its watch was opened has got no answer.
    const unanswered = response === undefined && ctx.respond === false && !ctx.res.headersSent
    if (!unanswered) record.answered(response?.status ?? ctx.status)
    if (response !== undefined) await this.#send(ctx, response)
  }

  /** Small bodies in one write, large ones at the client's pace, compressed where the client asks for it. */
  async #send(ctx: Koa.Context, { status, headers, body }: ApiResponse): Promise<void> {
    const parts = Buffer.isBuffer(body) ? [body] : body
    const length = parts.reduce((sum, part) => sum + part.length, 0)
    const reading = ctx.method === 'GET' || ctx.method === 'HEAD'
    // A small body is compressed only for a client that refuses it as it is, and that has to name one of these.
    const isPlain = !reading || !/identity|\*/.test(headerOf(ctx.headers, 'accept-encoding') ?? '')
    if (length <= bodyDefaults.wholeBytes && isPlain && ctx.method !== 'HEAD') {
      // Past Koa's own answer, whose bookkeeping costs as much as the rest of a small read.
      ctx.respond = false
      const fields: Record<string, string | string[] | number> = { 'content-length': length }
      if (reading) fields.vary = 'Accept-Encoding'
      for (const [name, value] of Object.entries(headers)) {
        fields[name] = typeof value === 'string' ? headerBytes(value) : value.map(headerBytes)
      }
      ctx.res.writeHead(status, fields)
      ctx.res.end(Buffer.isBuffer(body) ? body : Buffer.concat([...body], length))
      return
    }
    ctx.status = status
    for (const [name, value] of Object.entries(headers))
      ctx.set(name, typeof value === 'string' ? headerBytes(value) : value.map(headerBytes))
    if (reading) ctx.vary('Accept-Encoding')
    const gzip = reading && takesGzip(ctx, length)
    if (gzip) ctx.set('content-encoding', 'gzip')
    else ctx.length = length
    // Koa sends the headers.
    if (ctx.method === 'HEAD') return
    ctx.respond = false
    const outcome = await sendBody(ctx.res, parts, { gzip })
    if (outcome === 'too slow') {
      this.#parts.log.info({ path: ctx.path, length }, 'a client that did not take its answer was cut off')
    }
  }

  async #respond(ctx: Koa.Context, record: RequestRecord): Promise<ApiResponse | undefined> {
    checkLocalAccess({ host: ctx.req.headers.host, origin: headerOf(ctx.headers, 'origin') })
    const path = this.#belowBase(pathOf(ctx))
    if (path === undefined) throw noSuchPath(ctx.path)
    const resource = parseResourcePath(path)
    const served = resource && this.#parts.api.modelOf(resource)
    if (resource !== undefined && served !== undefined) {
      record.concerns(served, resource.name === undefined ? 'collection' : 'object')
      const query = ctx.querystring === '' ? noQuery : new URLSearchParams(ctx.querystring)
      if (isWatch(ctx.method, query)) {
        record.concerns(served, 'watch')
        return this.#stream(ctx, served, resource, query)
      }
      checkAccept(ctx)
      const { req } = ctx
      return this.#parts.api.handle(served, {
        method: ctx.method,
        path: resource,
        query,
        headers: ctx.headers,
        caller: callerOf(ctx.req),
        readBody: () => readRequestBody(req),
      })
    }
    if (path.startsWith('/apis/')) {
      ctx.state.caller = callerOf(ctx.req)
      const allowed = await this.#parts.routes.handle(ctx, path)
      if (allowed === undefined) return undefined
      if (allowed.length > 0) return methodNotAllowed(ctx.method, allowed)
    }
    const { path: layers, route } = this.#system.match(path, ctx.method)
    if (route) {
      ctx.path = path
      await this.#system.routes()(ctx as never, async () => {})
      return undefined
    }
    if (layers.length > 0) return methodNotAllowed(ctx.method, ['GET', 'HEAD'])
    throw this.#notServed(ctx.path, path)
  }

  /** Serves a watch over plain HTTP. Whatever is refused before the first event is an ordinary answer. */
  async #stream(
    ctx: Koa.Context,
    served: ServedModel,
    path: ResourcePath,
    query: URLSearchParams,
  ): Promise<undefined> {
    const accept = headerOf(ctx.headers, 'accept')
    const events =
      accept !== undefined &&
      negotiates(accept, 'text/event-stream') &&
      !negotiates(accept, 'application/json')
    if (!events) checkAccept(ctx)
    const cache = this.#parts.api.cacheOf(served)
    const request = readWatchRequest(cache, path.name, query, {
      bookmarksByDefault: events,
      ...(events && { lastEventId: headerOf(ctx.headers, 'last-event-id') }),
    })
    const present = await this.#parts.hub.admit(cache, request)
    ctx.respond = false
    const { res } = ctx
    // A client that has gone meanwhile is not heard to go any more: its watch would last to the end of its time.
    if (res.destroyed) return undefined
    const watch = this.#parts.hub.open(
      cache,
      request,
      new StreamSink(res, events ? 'events' : 'lines'),
      present,
    )
    res.on('drain', () => watch.drained())
    res.on('close', () => watch.close())
    return undefined
  }

  /** What to say of a path at which nothing is found. */
  #notServed(fullPath: string, path: string | undefined): ApiError {
    if (!path?.startsWith('/apis/') || !this.#parts.isStarting()) return noSuchPath(fullPath)
    return new ApiError(
      'ServiceUnavailable',
      `whether anything is served at ${fullPath.slice(0, 200)} is not known yet: plugins are being started`,
      { retryAfterSeconds },
    )
  }

  /** The path below the base path, or undefined where it is not below it. */
  #belowBase(path: string): string | undefined {
    const { basePath } = this.#parts
    if (basePath === '') return path
    if (!path.startsWith(basePath)) return undefined
    const below = path.slice(basePath.length)
    return below === '' || below.startsWith('/') ? below : undefined
  }

  #systemRoutes(): Router {
    const { health, metrics, models } = this.#parts
    const router = new Router()
    const probe = (check: (verbose: boolean) => Promise<HealthAnswer>) => async (ctx: Koa.Context) => {
      const { status, text } = await check(ctx.query.verbose !== undefined)
      ctx.status = status
      ctx.type = 'text/plain'
      ctx.body = text
    }
    router.get(
      '/livez',
      probe(verbose => health.live(verbose)),
    )
    router.get(
      '/healthz',
      probe(verbose => health.live(verbose)),
    )
    router.get(
      '/readyz',
      probe(verbose => health.ready(verbose)),
    )
    router.get('/metrics', async (ctx: Koa.Context) => {
      ctx.set('content-type', metrics.contentType)
      ctx.body = await metrics.text()
    })
    const json =
      (make: (ctx: { params: Record<string, string> }) => object | undefined) => (ctx: Koa.Context) => {
        const body = make(ctx as unknown as { params: Record<string, string> })
        if (body === undefined) throw this.#notServed(ctx.path, ctx.path)
        ctx.set('content-type', 'application/json')
        ctx.body = JSON.stringify(body)
      }
    router.get(
      '/version',
      json(() => versionInfo()),
    )
    router.get(
      '/apis',
      json(() => groupList(models)),
    )
    router.get(
      '/apis/:group',
      json(({ params }) => group(models, params.group ?? '')),
    )
    router.get(
      '/apis/:group/:version',
      json(({ params }) => resourceList(models, `${params.group}/${params.version}`)),
    )
    return router
  }

  /** Opens a WebSocket watch. Whatever is refused before the upgrade is an ordinary answer. */
  async #upgrade(message: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    // Until ws takes the socket over nobody else listens, and an unheard error would end the process.
    const ignore = () => {}
    socket.on('error', ignore)
    const record = this.#parts.metrics.requests.begin(message.method ?? '')
    try {
      const { headers } = message
      checkLocalAccess({ host: headers.host, origin: headerOf(headers, 'origin') })
      const [fullPath = '', queryText = ''] = splitOnce(message.url ?? '', '?')
      const path = this.#belowBase(fullPath)
      const resource = path === undefined ? undefined : parseResourcePath(path)
      const served =
        resource && resource.subresource === undefined ? this.#parts.api.modelOf(resource) : undefined
      if (resource === undefined || served === undefined) throw this.#notServed(fullPath, path)
      record.concerns(served, 'watch')
      if (headers.upgrade?.toLowerCase() !== 'websocket') {
        throw new ApiError(
          'BadRequest',
          `the protocol ${JSON.stringify(headers.upgrade)} is not served, only websocket is`,
        )
      }
      if (message.method !== 'GET') {
        record.answered(405)
        refuseUpgrade(socket, methodNotAllowed(message.method ?? '', ['GET']))
        return
      }
      const cache = this.#parts.api.cacheOf(served)
      const request = readWatchRequest(cache, resource.name, new URLSearchParams(queryText), {
        bookmarksByDefault: true,
      })
      const present = await this.#parts.hub.admit(cache, request)
      const upgraded = this.#sockets.accept(message, socket, head, cache, request, present)
      record.answered(upgraded ? 101 : 400)
      socket.off('error', ignore)
    } catch (thrown) {
      const error = toApiError(thrown, this.#parts.log, { method: 'upgrade', path: message.url })
      const response = errorResponse(error)
      record.answered(response.status)
      refuseUpgrade(socket, response)
    }
  }
}

/** @throws ApiError 400 for a target in absolute form that is no URL. */
function pathOf(ctx: Koa.Context): string {
  try {
    return ctx.path
  } catch {
    throw new ApiError('BadRequest', 'the target of the request is not a well-formed URL')
  }
}

function isWatch(method: string, query: URLSearchParams): boolean {
  const watch = query.get('watch')
  if (watch === null || watch === '' || watch === 'false' || watch === '0') return false
  if (watch !== 'true' && watch !== '1') {
    throw new ApiError('BadRequest', `watch ${JSON.stringify(watch)} is not true or false`)
  }
  if (method !== 'GET') throw new ApiError('BadRequest', `watch is for GET, not for ${method}`)
  return true
}

function callerOf(message: IncomingMessage): Caller {
  return { user: localUser, plugin: headerOf(message.headers, pluginHeader) || undefined }
}

function checkAccept(ctx: Koa.Context): void {
  const accept = headerOf(ctx.headers, 'accept')
  if (accept !== undefined && !negotiates(accept, 'application/json')) {
    throw new ApiError(
      'NotAcceptable',
      `only application/json can be produced, not ${JSON.stringify(accept.slice(0, 200))}`,
    )
  }
}

/** Refuses a request whose body has not all arrived: whatever follows must not be taken for the next request. */
async function refuseUnread(ctx: Koa.Context, { status, headers, body }: ApiResponse): Promise<void> {
  ctx.respond = false
  const bytes = Buffer.isBuffer(body) ? body : Buffer.concat([...body])
  ctx.res.writeHead(status, { ...headers, connection: 'close', 'content-length': bytes.length })
  ctx.res.write(bytes)
  await discardRequestBody(ctx.req)
  ctx.res.end()
}

/** Whether a body of this many bytes is sent compressed: a large one if the client likes that as much, any if it must be. */
function takesGzip(ctx: Koa.Context, length: number): boolean {
  if (ctx.acceptsEncodings('gzip', 'identity') !== 'gzip') return false
  return length > bodyDefaults.gzipBytes || ctx.acceptsEncodings('identity') === false
}

/** Text as UTF-8 in a header, of which Node sends each character as one byte and refuses those that are none. */
function headerBytes(text: string): string {
  return /^[\x20-\x7e]*$/.test(text) ? text : Buffer.from(text).toString('latin1')
}

function noSuchPath(path: string): ApiError {
  return new ApiError('NotFound', `nothing is served at ${path.slice(0, 200)}`)
}

function splitOnce(text: string, separator: string): string[] {
  const at = text.indexOf(separator)
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 1)]
}

/**
 * Whether a request that offers another protocol than WebSocket can be answered as if it had not: RFC 9110 says so,
 * and some clients offer h2c with every first request. Node has let go of the connection's parser by then, so a body
 * could not be read any more.
 */
function mayIgnoreUpgrade({ headers }: IncomingMessage): boolean {
  const hasBody = Number(headers['content-length'] ?? 0) > 0 || headers['transfer-encoding'] !== undefined
  return headers.upgrade?.toLowerCase() !== 'websocket' && !hasBody
}

/** Answers a request over the socket that Node handed over for an upgrade; the connection ends with the answer. */
function answerInPlace(
  message: IncomingMessage,
  socket: Duplex,
  answer: (message: IncomingMessage, response: ServerResponse) => unknown,
): void {
  if (!(socket instanceof Socket)) {
    socket.destroy()
    return
  }
  socket.on('error', () => {})
  const response = new ServerResponse(message)
  response.shouldKeepAlive = false
  response.assignSocket(socket)
  // Not only our half: a client that keeps its own open would keep the connection.
  response.on('finish', () => socket.destroySoon())
  answer(message, response)
}

const statusTexts: Readonly<Record<number, string>> = Object.freeze({
  400: 'Bad Request',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  410: 'Gone',
  429: 'Too Many Requests',
  500: 'Internal Server Error',
  503: 'Service Unavailable',
  504: 'Gateway Timeout',
})

function refuseUpgrade(socket: Duplex, { status, headers, body }: ApiResponse): void {
  const bytes = Buffer.isBuffer(body) ? body : Buffer.concat([...body])
  const lines = [
    `HTTP/1.1 ${status} ${statusTexts[status] ?? 'Error'}`,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    `content-length: ${bytes.length}`,
    'connection: close',
  ]
  socket.end(Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`), bytes]))
  // The HTTP server does not watch over this socket any more: a client that never closes its half would keep it open
  // for ever. What it still sends is taken off, so that the answer is not lost to a reset.
  const timer = setTimeout(() => socket.destroy(), requestLimits.discardMs)
  socket.once('close', () => clearTimeout(timer))
  socket.resume()
}

/** What is no HTTP at all, or has a line and headers that are too large, still gets a Status. */
function refuseBrokenRequest(error: Error & { code?: string }, socket: Duplex): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const why =
    error.code === 'HPE_HEADER_OVERFLOW'
      ? `the request line and headers are larger than ${requestLimits.headerBytes} bytes`
      : 'the request is not well-formed HTTP'
  refuseUpgrade(socket, errorResponse(new ApiError('BadRequest', why)))
}
