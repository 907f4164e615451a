import type { Transport, UserInfo } from '@setpoint/controller-runtime'
import type {
  TransportRequest,
  TransportResponse,
  WatchConnection,
  WatchEnd,
  WatchRequestOptions,
} from '@setpoint/controller-runtime/internal'
import { withRequestSpan } from '@setpoint/controller-runtime/internal'
import type { AuditedRequest, AuditLog } from '../audit/index.ts'
import type { CheckedRequest, RequestInfo, ResourceApi, ResourceRequest } from '../http/index.ts'
import {
  type ApiResponse,
  asWatch,
  auditOutcomeOf,
  classOf,
  errorResponse,
  nothingServed,
  partyOfPlugin,
  passChecks,
  RequestSeat,
  readFresh,
  readRequestInfo,
  readWatchRequest,
  rightsOf,
  splitTarget,
  toApiError,
  withWarnings,
} from '../http/index.ts'
import type { Logger } from '../log/index.ts'
import type { RequestQueues } from '../scheduling/index.ts'
import type { Grant, Identity } from '../security/index.ts'
import { lines, type Watch, type WatchHub, type WatchSink } from '../watch/index.ts'
import { type Actor, checkActor, serverActor } from './actor.ts'

interface LoopbackParts {
  readonly api: ResourceApi
  readonly hub: WatchHub
  readonly queues: RequestQueues
  readonly log: Logger
  readonly audit: AuditLog | undefined
  /** True while plugins may still add kinds. */
  readonly isStarting: () => boolean
}

/**
 * The transport of controllers and plugins that run inside the server: the same requests, checks and responses as over
 * HTTP, without sockets.
 */
export class LoopbackTransport implements Transport {
  readonly #parts: LoopbackParts
  readonly #actor: Actor

  constructor(parts: LoopbackParts, actor: Actor = serverActor) {
    this.#parts = parts
    this.#actor = actor
  }

  /** Returns a transport for another actor. */
  for(actor: Actor): LoopbackTransport {
    return new LoopbackTransport(this.#parts, actor)
  }

  request(request: TransportRequest): Promise<TransportResponse> {
    const { method, path: target } = request
    return withRequestSpan({ method, target }, async span => {
      const response = await this.#request(request)
      span?.setAttribute('http.response.status_code', response.status)
      return response
    })
  }

  async #request(request: TransportRequest): Promise<TransportResponse> {
    request.signal?.throwIfAborted()
    const { api, log } = this.#parts
    const { method, path: target, headers = {}, body, user = this.#actor.user, signal } = request
    const loopback = this.#begin({ method, target, user, headers, signal, isWatch: false })
    const { audit } = loopback
    const warnings: string[] = []
    let response: ApiResponse
    try {
      const info = servedIn(await passChecks(loopback), target)
      const { served, path, query } = info
      const content = Buffer.from(body ?? '')
      const seat = loopback.seatOf(info)
      response = await api.handle(served, {
        method,
        path,
        query,
        headers,
        caller: { user, payer: this.#actor.user.name, plugin: headers['x-setpoint-plugin'] },
        rights: rightsOf(served, (verb, target) => checkActor(this.#actor, user, { verb, target, served })),
        async readBody() {
          await seat.beforeParsing(content.length)
          return content
        },
        turn: () => seat.enter(),
        onDocument: audit?.onDocument,
        notes: {
          warn: text => void warnings.push(text),
          annotate: (key, value) => audit?.annotate(key, value),
        },
        signal,
        whenGone: () => signal,
      })
    } catch (thrown) {
      if (signal?.aborted) audit?.completed({ code: undefined })
      signal?.throwIfAborted()
      response = errorResponse(toApiError(thrown, log, { method, path: target }))
    }
    response = withWarnings(response, warnings)
    const bytes = Buffer.isBuffer(response.body) ? response.body : Buffer.concat([...response.body])
    response.release?.()
    audit?.completed({ code: response.status, body: bytes, location: response.headers.location })
    return { status: response.status, headers: flatten(response.headers), body: bytes.toString() }
  }

  async watch(
    target: string,
    { user = this.#actor.user, headers = {}, signal }: WatchRequestOptions,
  ): Promise<WatchConnection> {
    const { api, hub, log } = this.#parts
    const loopback = this.#begin({ method: 'GET', target, user, headers, signal, isWatch: true })
    const { audit } = loopback
    try {
      const info = servedIn(await passChecks(loopback), target)
      const cache = api.cacheOf(api.presentKind(info.served, info.path))
      const request = readWatchRequest(cache, info.path, info.query, { bookmarksByDefault: true })
      const present = await hub.admit(cache, request, signal)
      signal.throwIfAborted()
      const open = (sink: WatchSink) => {
        let opened: Watch | undefined
        // The roles may have changed since the request was authorized.
        const check = () => checkActor(this.#actor, user, info)
        check()
        const stopListening = this.#actor.onChange(() => {
          try {
            check()
          } catch (error) {
            opened?.forbid(toApiError(error, log, { method: 'watch', path: target }))
          }
        }, user)
        const onEnd = () => {
          stopListening()
          audit?.completed({ code: 200 })
        }
        const caller = this.#actor.user.name
        opened = hub.open(cache, request, sink, present, { internal: true, caller, onEnd })
        return opened
      }
      const watch = new LoopbackWatch(open, signal)
      audit?.started(200)
      return watch
    } catch (thrown) {
      if (signal.aborted) audit?.completed({ code: undefined })
      signal.throwIfAborted()
      const error = toApiError(thrown, log, { method: 'watch', path: target })
      audit?.completed(auditOutcomeOf(error))
      throw error
    }
  }

  #begin(params: LoopbackParams): LoopbackRequest {
    return new LoopbackRequest(this.#actor, this.#parts, params)
  }
}

interface LoopbackParams {
  readonly method: string
  readonly target: string
  /** Who the actor acts for; the actor itself if it acts for nobody else. */
  readonly user: UserInfo
  readonly headers: Readonly<Record<string, string>>
  readonly signal: AbortSignal | undefined
  readonly isWatch: boolean
}

/** A request of an actor in this process. */
class LoopbackRequest implements CheckedRequest<RequestInfo> {
  readonly audit: AuditedRequest | undefined
  readonly #actor: Actor
  readonly #parts: LoopbackParts
  readonly #params: LoopbackParams

  constructor(actor: Actor, parts: LoopbackParts, params: LoopbackParams) {
    this.#actor = actor
    this.#parts = parts
    this.#params = params
    const { target: uri, headers } = params
    this.audit = parts.audit?.begin({ uri, headers, remoteAddress: undefined })
  }

  authenticate(): Identity {
    return { user: this.#actor.user, credential: undefined }
  }

  impersonate(caller: Identity): Identity {
    const { user } = this.#params
    this.#actor.checkUser(user)
    return user === caller.user ? caller : { user, credential: undefined, impersonator: caller }
  }

  read(): RequestInfo | Promise<RequestInfo> {
    const { method, target, isWatch } = this.#params
    const { api, isStarting } = this.#parts
    const { path, query } = splitTarget(target)
    const read = () => {
      const info = readRequestInfo(method, path, query, { modelOf: path => api.modelOf(path), isStarting })
      return isWatch ? asWatch(info) : info
    }
    return readFresh(read, api.definitions)
  }

  turn(info: RequestInfo): Promise<void> | undefined {
    return this.seatOf(info).enter()
  }

  grantOf({ user }: Identity, info: RequestInfo): Grant | undefined {
    return this.#actor.grantOf(user, info)
  }

  seatOf(info: RequestInfo): RequestSeat {
    const { signal } = this.#params
    const party = partyOfPlugin(classOf(info), this.#actor.user)
    return new RequestSeat(this.#parts.queues, party, () => signal?.aborted === true)
  }
}

/** @throws ApiError 404, 503 while plugins are starting */
function servedIn(info: RequestInfo, target: string): ResourceRequest {
  if (info.served === undefined) throw nothingServed(target, target, info)
  return info
}

function flatten(headers: ApiResponse['headers']): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [
      name,
      typeof value === 'string' ? value : value.join(', '),
    ]),
  )
}

/** A watch that is consumed by an iteration in this process. Lines that it has not read yet are its backlog. */
class LoopbackWatch implements WatchConnection {
  readonly end: Promise<WatchEnd>
  /** Unread lines, one event each. */
  readonly #written: Buffer[] = []
  readonly #watch: Watch
  #backlog = 0
  #ended = false
  #wake: (() => void) | undefined

  constructor(open: (sink: WatchSink) => Watch, signal: AbortSignal) {
    const abort = () => this.close()
    const { promise, resolve } = withResolvers<WatchEnd>()
    this.end = promise
    const backlog = () => this.#backlog
    this.#watch = open({
      codec: lines,
      get backlog() {
        return backlog()
      },
      write: bytes => {
        this.#written.push(bytes)
        this.#backlog += bytes.length
        this.#wake?.()
      },
      end: end => {
        this.#ended = true
        signal.removeEventListener('abort', abort)
        resolve(end)
        this.#wake?.()
      },
    })
    if (!this.#ended) signal.addEventListener('abort', abort, { once: true })
  }

  close(): void {
    this.#watch.close()
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<string> {
    try {
      for (;;) {
        const batch = this.#written.splice(0)
        for (const bytes of batch) {
          for (const line of bytes.toString().split('\n')) if (line !== '') yield line
          this.#backlog -= bytes.length
        }
        if (batch.length > 0) this.#watch.drained()
        else if (this.#ended) return
        else {
          await new Promise<void>(resolve => {
            this.#wake = resolve
          })
          this.#wake = undefined
        }
      }
    } finally {
      this.close()
    }
  }
}

function withResolvers<T>(): { promise: Promise<T>; resolve: (value: T) => void } {
  let resolve: (value: T) => void = () => {}
  const promise = new Promise<T>(settle => {
    resolve = settle
  })
  return { promise, resolve }
}
