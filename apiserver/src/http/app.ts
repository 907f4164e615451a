import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createSecureServer, type Server as SecureServer } from 'node:https'
import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { Router } from '@koa/router'
import { ApiError } from '@setpoint/controller-runtime/api'
import Koa from 'koa'
import type { Logger } from '../log.ts'
import type { Metrics, RequestRecord } from '../metrics/index.ts'
import type { ModelRegistry } from '../model/model-registry.ts'
import { retryAfterSeconds } from '../registry/index.ts'
import { type Access, authorize, type Identity, verbOf } from '../security/index.ts'
import type { WatchConnections, WatchHub } from '../watch/index.ts'
import { abortedByClose } from './aborted-by-close.ts'
import { type ApiResponse, type Caller, headerOf, parseResourcePath, requestLimits } from './api-request.ts'
import { bodyDefaults, sendBody } from './body-sender.ts'
import { Connections, connectionDefaults } from './connections.ts'
import type { CustomRoutes } from './custom-routes.ts'
import { group, groupList, resourceList } from './discovery.ts'
import { errorResponse, methodNotAllowed, toApiError } from './error-response.ts'
import type { Health, HealthAnswer } from './health.ts'
import { negotiates, preferredType } from './media-type.ts'
import { endWith } from './raw-answer.ts'
import { discardRequestBody, readRequestBody } from './request-body.ts'
import { readTarget } from './request-target.ts'
import type { ResourceApi } from './resource-api.ts'
import { offersWebSocket, requestsThatUpgrade } from './upgrade-offer.ts'
import { versionInfo } from './version-info.ts'
import { nameOf, WatchApi, type WatchTarget } from './watch-api.ts'
import { readBoolean } from './watch-parameters.ts'
import { multiplexProtocol, offersMultiplexing } from './watch-sockets.ts'

/** The header by which a plugin's client says whose it is. */
const pluginHeader = 'x-setpoint-plugin'

const secureDefaults = Object.freeze({ minVersion: 'TLSv1.2' } as const)

/** What is answered without credentials. */
const openPaths: ReadonlySet<string> = new Set(['/livez', '/readyz', '/healthz', '/version'])

const noQuery = new URLSearchParams()

export interface AppParts {
  readonly models: ModelRegistry
  readonly api: ResourceApi
  readonly routes: CustomRoutes
  readonly hub: WatchHub
  readonly watchConnections: WatchConnections
  readonly access: Access
  readonly health: Health
  readonly metrics: Metrics
  readonly log: Logger
  /** Whether plugins have yet to say what they serve, so that nothing below /apis can be denied. */
  readonly isStarting: () => boolean
  /** Before every path: '' or '/x'. */
  readonly basePath: string
  /** PEM texts; plain HTTP without. */
  readonly tls?: TlsFiles | undefined
}

/** What a server shows itself by. */
export interface TlsFiles {
  readonly cert: string
  readonly key: string
}

/** The HTTP server: finds out what a request is about and hands it on; knows every refusal's form. */
export class App {
  readonly server: Server | SecureServer
  readonly #parts: AppParts
  readonly #watches: WatchApi
  readonly #system: Router
  readonly #connections: Connections

  constructor(parts: AppParts) {
    this.#parts = parts
    this.#watches = new WatchApi({
      api: parts.api,
      hub: parts.hub,
      connections: parts.watchConnections,
      access: parts.access,
      // The base path is the socket's, and may be left out on it.
      resolve: path => this.#watched(path, this.#belowBase(path) ?? path),
      toApiError: thrown => toApiError(thrown, parts.log, { method: 'watch' }),
      refuseHandshake: (socket, why) =>
        endWith(
          socket,
          errorResponse(new ApiError('BadRequest', `the handshake is not one of WebSocket: ${why}`), {
            'sec-websocket-version': '13',
          }),
        ),
    })
    this.#system = this.#systemRoutes()
    const koa = new Koa()
    koa.use(ctx => this.#serve(ctx))
    koa.on('error', error => parts.log.debug({ err: error }, 'an answer could not be sent'))
    const respond = koa.callback()
    const answer = (message: IncomingMessage, response: ServerResponse) => {
      if (!this.#connections.begin(message, response)) return
      if (!this.#namesObjects(message.url ?? '')) {
        void respond(message, response)
        return
      }
      // Without what Koa does around its middleware: objects are sent past it, and it costs a fifth of a small read.
      const ctx = koa.createContext(message, response)
      this.#serve(ctx).catch(error => ctx.onerror(error))
    }
    const { headersMs, requestMs, handshakeMs, lookMs, keepAliveMs, probeAfterMs } = connectionDefaults
    const options = {
      IncomingMessage: requestsThatUpgrade(
        message => offersWebSocket(message) && this.#connections.mayRelease(message.socket),
      ),
      maxHeaderSize: requestLimits.headerBytes,
      headersTimeout: headersMs,
      requestTimeout: requestMs,
      keepAliveTimeout: keepAliveMs,
      connectionsCheckingInterval: lookMs,
      // It would be refused without a Status.
      requireHostHeader: false,
      // Of a client that is gone without a word nothing else is heard where nothing is sent to it.
      keepAlive: true,
      keepAliveInitialDelay: probeAfterMs,
    }
    this.server =
      parts.tls === undefined
        ? createServer(options, answer)
        : createSecureServer(
            { ...options, ...secureDefaults, ...parts.tls, handshakeTimeout: handshakeMs },
            answer,
          )
    // Headers that are left out would be left out without a word; there is a limit of their bytes.
    this.server.maxHeadersCount = 0
    this.#connections = new Connections(this.server, { log: parts.log })
    this.server.on('upgrade', (message, socket, head) => {
      this.#connections.release(message.socket)
      void this.#upgrade(message, socket, head)
    })
    // Ignores unsupported Expect headers (RFC 9110, 10.1.1).
    this.server.on('checkExpectation', answer)
    this.server.on('error', error => parts.log.error({ err: error }, 'a connection could not be accepted'))
    this.server.on('clientError', (error: Error & { code?: string }, socket) => {
      if (error.code === 'ECONNRESET' || !(socket instanceof Socket)) socket.destroy()
      else this.#connections.refuse(socket, brokenRequest(error))
    })
  }

  /** Shows itself by this from the next connection on. @throws Error where certificate and key do not belong together */
  renewTls(tls: TlsFiles): void {
    if ('setSecureContext' in this.server) this.server.setSecureContext({ ...secureDefaults, ...tls })
  }

  /** Takes no new watches, and ends those that are open within the time. */
  drainWatches(graceMs: number): Promise<void> {
    return this.#watches.drain(graceMs)
  }

  /**
   * Takes no new connections after a while, answers what comes on those that are open, and ends them. Resolves when all
   * are closed, those of watches too.
   */
  drainConnections(): Promise<void> {
    return this.#connections.drain()
  }

  /** Drops the sockets that have not closed by themselves. */
  close(): void {
    this.#watches.close()
    this.#connections.close()
  }

  /** Whether a target in its usual form names objects that are served. What is wrong with an odd one is found later. */
  #namesObjects(target: string): boolean {
    const [fullPath = ''] = target.split('?', 1)
    const path = this.#belowBase(fullPath)
    try {
      const resource = path === undefined ? undefined : parseResourcePath(path)
      return resource !== undefined && this.#parts.api.modelOf(resource) !== undefined
    } catch {
      return false
    }
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
    if (response === undefined) return
    try {
      await this.#send(ctx, response)
    } finally {
      response.release?.()
    }
  }

  /** Small bodies in one write, large ones at the client's pace, compressed where the client asks for it. */
  async #send(ctx: Koa.Context, { status, headers, body }: ApiResponse): Promise<void> {
    if (ctx.res.destroyed) return
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
    ctx.respond = false
    if (ctx.method === 'HEAD') {
      ctx.res.end()
      return
    }
    await sendBody(ctx.res, parts, { gzip })
  }

  async #respond(ctx: Koa.Context, record: RequestRecord): Promise<ApiResponse | undefined> {
    if (ctx.method === 'CONNECT') {
      // It asks for a tunnel, and its target is no path.
      this.#parts.access.identify(ctx.req.headers)
      return methodNotAllowed(ctx.method, tunnelAlternatives)
    }
    const target = readTarget(ctx.req)
    // Without the host where it had one: what Koa finds out about a request it finds in this.
    if (!ctx.url.startsWith('/'))
      ctx.url = target.query === '' ? target.path : `${target.path}?${target.query}`
    const path = this.#belowBase(target.path)
    // Whether the server is alive may be asked by probes, which have no credentials.
    if (path !== undefined && openPaths.has(path)) {
      this.#parts.access.checkCaller(ctx.req.headers)
      return this.#serveSystem(ctx, path)
    }
    const identity = this.#parts.access.identify(ctx.req.headers)
    const { user } = identity
    if (path === undefined) throw noSuchPath(target.path)
    const resource = parseResourcePath(path)
    const served = resource && this.#parts.api.modelOf(resource)
    if (resource !== undefined && served !== undefined) {
      record.concerns(served, resource.name === undefined ? 'collection' : 'object')
      const query = target.query === '' ? noQuery : new URLSearchParams(target.query)
      if (isWatch(ctx.method, query)) {
        record.concerns(served, 'watch')
        authorize(user, 'watch', nameOf(served))
        return this.#stream(ctx, { served, path: resource, query }, identity)
      }
      authorize(
        user,
        verbOf(ctx.method, resource.name === undefined ? 'collection' : 'object'),
        nameOf(served),
      )
      checkAccept(ctx)
      const { req } = ctx
      // A request for one object is short, and needs no signal.
      const isLong = resource.name === undefined && ctx.method !== 'POST'
      const gone = isLong ? abortedByClose(req, ctx.res) : undefined
      return this.#parts.api.handle(served, {
        method: ctx.method,
        path: resource,
        query,
        headers: ctx.headers,
        caller: callerOf(identity, ctx.req),
        readBody: () => readRequestBody(req),
        get signal() {
          return gone?.signal
        },
      })
    }
    if (path.startsWith('/apis/')) {
      ctx.state.caller = callerOf(identity, ctx.req)
      authorize(user, verbOf(ctx.method, 'object'), path)
      const allowed = await this.#parts.routes.handle(ctx, path)
      if (allowed === undefined) return undefined
      if (allowed.length > 0) return methodNotAllowed(ctx.method, allowed)
    }
    authorize(user, verbOf(ctx.method, 'object'), path)
    return this.#serveSystem(ctx, path)
  }

  /** Discovery, health, metrics. */
  async #serveSystem(ctx: Koa.Context, path: string): Promise<ApiResponse | undefined> {
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
  async #stream(ctx: Koa.Context, target: WatchTarget, identity: Identity): Promise<undefined> {
    const accept = headerOf(ctx.headers, 'accept')
    const events = preferredType(accept, ['application/json', 'text/event-stream']) === 'text/event-stream'
    if (!events) checkAccept(ctx)
    const lastEventId = headerOf(ctx.headers, 'last-event-id')
    this.#connections.streams(ctx.res)
    await this.#watches.stream(target, ctx.res, events ? 'events' : 'lines', identity, lastEventId)
    ctx.respond = false
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
    const router = new Router({ sensitive: true })
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

  /** What a path names that is to be watched. @throws ApiError 404, 503 while plugins are being started */
  #watched(fullPath: string, path = this.#belowBase(fullPath)): Omit<WatchTarget, 'query'> {
    const resource = path === undefined ? undefined : parseResourcePath(path)
    const served =
      resource && resource.subresource === undefined ? this.#parts.api.modelOf(resource) : undefined
    if (resource === undefined || served === undefined) throw this.#notServed(fullPath, path)
    return { served, path: resource }
  }

  /** Opens a WebSocket of one watch or of many. Whatever is refused before the upgrade is an ordinary answer. */
  async #upgrade(message: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    // Until ws takes the socket over nobody else listens, and an unheard error would end the process.
    const ignore = () => {}
    socket.on('error', ignore)
    const record = this.#parts.metrics.requests.begin(message.method ?? '')
    try {
      const identity = this.#parts.access.identify(message.headers)
      const { path: fullPath, query: queryText } = readTarget(message)
      const isMultiplexed = this.#belowBase(fullPath) === '/apis'
      const target = isMultiplexed
        ? undefined
        : { ...this.#watched(fullPath), query: new URLSearchParams(queryText) }
      if (target !== undefined) {
        record.concerns(target.served, 'watch')
        authorize(identity.user, 'watch', nameOf(target.served))
      }
      checkUpgrade(message, isMultiplexed)
      if (message.method !== 'GET') {
        record.answered(405)
        endWith(socket, methodNotAllowed(message.method ?? '', ['GET']))
        return
      }
      const upgraded =
        target === undefined
          ? this.#watches.multiplex(message, socket, head, identity)
          : await this.#watches.upgrade(target, message, socket, head, identity)
      record.answered(upgraded ? 101 : 400)
      socket.off('error', ignore)
    } catch (thrown) {
      const error = toApiError(thrown, this.#parts.log, { method: 'upgrade', path: message.url })
      const response = errorResponse(error)
      record.answered(response.status)
      endWith(socket, response)
    }
  }
}

const tunnelAlternatives = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'] as const

/** @throws ApiError 400 for an upgrade to something that is not served. */
function checkUpgrade(message: IncomingMessage, isMultiplexed: boolean): void {
  const { upgrade } = message.headers
  if (upgrade?.toLowerCase() !== 'websocket') {
    throw new ApiError(
      'BadRequest',
      `the protocol ${JSON.stringify(upgrade)} is not served, only websocket is`,
    )
  }
  if (isMultiplexed && !offersMultiplexing(message))
    throw new ApiError(
      'BadRequest',
      `a WebSocket of many watches needs the sub-protocol ${multiplexProtocol}`,
    )
}

function isWatch(method: string, query: URLSearchParams): boolean {
  if (readBoolean(query, 'watch') !== true) return false
  if (method !== 'GET') throw new ApiError('BadRequest', `watch is for GET, not for ${method}`)
  return true
}

function callerOf({ user }: Identity, message: IncomingMessage): Caller {
  return { user, plugin: headerOf(message.headers, pluginHeader) || undefined }
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

/** What is no HTTP at all, has a line and headers that are too large, or does not come to its end in time. */
function brokenRequest({ code }: Error & { code?: string }): ApiError {
  if (code === 'HPE_HEADER_OVERFLOW')
    return new ApiError(
      'BadRequest',
      `the request line and headers are larger than ${requestLimits.headerBytes} bytes`,
    )
  const isLate = code === 'ERR_HTTP_REQUEST_TIMEOUT'
  return new ApiError(
    'BadRequest',
    isLate ? 'the request did not arrive in time' : 'the request is not well-formed HTTP',
  )
}
