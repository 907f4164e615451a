import type { Transport, UserInfo } from '@setpoint/controller-runtime'
import type {
  TransportRequest,
  TransportResponse,
  WatchConnection,
  WatchEnd,
  WatchRequestOptions,
} from '@setpoint/controller-runtime/internal'
import type { AuditedRequest, AuditLog } from '../audit/index.ts'
import type { RequestInfo, ResourceApi, ResourceRequest, Served } from '../http/index.ts'
import {
  type ApiResponse,
  asWatch,
  classOf,
  enforce,
  errorResponse,
  nothingServed,
  partyOfPlugin,
  RequestSeat,
  readRequestInfo,
  readWatchRequest,
  rightsOf,
  splitTarget,
  toApiError,
} from '../http/index.ts'
import type { Logger } from '../log/index.ts'
import type { RequestQueues } from '../security/index.ts'
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
  readonly #served: Served

  constructor(parts: LoopbackParts, actor: Actor = serverActor) {
    this.#parts = parts
    this.#actor = actor
    const { api, isStarting } = parts
    this.#served = { modelOf: path => api.modelOf(path), isStarting }
  }

  /** Returns a transport for another actor. */
  for(actor: Actor): LoopbackTransport {
    return new LoopbackTransport(this.#parts, actor)
  }

  async request(request: TransportRequest): Promise<TransportResponse> {
    request.signal?.throwIfAborted()
    const { api, queues, log } = this.#parts
    const { method, path: target, headers = {}, body, user = this.#actor.user, signal } = request
    const audited = this.#begin(target, user, headers)
    let response: ApiResponse
    try {
      const info = this.#read(method, target)
      audited?.concerns(info)
      const { served, path, query, verb, target: objects } = servedIn(info, target)
      const content = Buffer.from(body ?? '')
      const party = partyOfPlugin(classOf(info), this.#actor.user)
      const seat = new RequestSeat(queues, party, () => signal?.aborted === true)
      await seat.enter()
      enforce(this.#actor.grantOf(user, verb, served, objects), user, info, audited)
      response = await api.handle(served, {
        method,
        path,
        query,
        headers,
        caller: { user, payer: party.identity, plugin: headers['x-setpoint-plugin'] },
        rights: rightsOf(served, (verb, each) => checkActor(this.#actor, user, verb, served, each)),
        async readBody() {
          await seat.beforeParsing(content.length)
          return content
        },
        turn: () => seat.enter(),
        onDocument: audited?.onDocument,
        signal,
        whenGone: () => signal,
      })
    } catch (thrown) {
      if (signal?.aborted) audited?.completed({ code: undefined })
      signal?.throwIfAborted()
      response = errorResponse(toApiError(thrown, log, { method, path: target }))
    }
    const bytes = Buffer.isBuffer(response.body) ? response.body : Buffer.concat([...response.body])
    response.release?.()
    audited?.completed({ code: response.status, body: bytes, location: response.headers.location })
    return { status: response.status, headers: flatten(response.headers), body: bytes.toString() }
  }

  async watch(
    target: string,
    { user = this.#actor.user, headers = {}, signal }: WatchRequestOptions,
  ): Promise<WatchConnection> {
    const { api, hub, queues, log } = this.#parts
    const audited = this.#begin(target, user, headers)
    try {
      const info = asWatch(this.#read('GET', target))
      audited?.concerns(info)
      const { served, path, query, verb, target: objects } = servedIn(info, target)
      const party = partyOfPlugin('watches', this.#actor.user)
      if (!queues.passes(party)) await queues.wait(party, () => signal.aborted)
      enforce(this.#actor.grantOf(user, verb, served, objects), user, info, audited)
      const cache = api.cacheOf(served)
      const request = readWatchRequest(cache, path, query, { bookmarksByDefault: true })
      const present = await hub.admit(cache, request, signal)
      signal.throwIfAborted()
      const open = (sink: WatchSink) => {
        let opened: Watch | undefined
        // The roles may have changed since the request was authorized.
        const check = () => checkActor(this.#actor, user, verb, served, objects)
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
          audited?.completed({ code: 200 })
        }
        opened = hub.open(cache, request, sink, present, { internal: true, caller: party.identity, onEnd })
        return opened
      }
      const watch = new LoopbackWatch(open, signal)
      audited?.started(200)
      return watch
    } catch (thrown) {
      if (signal.aborted) audited?.completed({ code: undefined })
      signal.throwIfAborted()
      const error = toApiError(thrown, log, { method: 'watch', path: target })
      audited?.completed({ code: error.code, body: errorResponse(error).body })
      throw error
    }
  }

  #begin(uri: string, user: UserInfo, headers: Readonly<Record<string, string>>): AuditedRequest | undefined {
    const { audit } = this.#parts
    if (audit === undefined) return undefined
    const audited = audit.begin({ uri, headers, remoteAddress: undefined })
    const actor = { user: this.#actor.user, credential: undefined }
    audited.identified(user === actor.user ? actor : { user, credential: undefined, impersonator: actor })
    return audited
  }

  #read(method: string, target: string): RequestInfo {
    const { path, query } = splitTarget(target)
    return readRequestInfo(method, path, query, this.#served)
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
