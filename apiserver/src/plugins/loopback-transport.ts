import { ApiError, type Transport } from '@setpoint/controller-runtime'
import type {
  TransportRequest,
  TransportResponse,
  WatchConnection,
  WatchEnd,
  WatchRequestOptions,
} from '@setpoint/controller-runtime/internal'
import type { ResourceApi } from '../http/index.ts'
import {
  type ApiResponse,
  type Caller,
  errorResponse,
  parseResourcePath,
  readWatchRequest,
  toApiError,
} from '../http/index.ts'
import type { Logger } from '../log/index.ts'
import type { ServedModel } from '../model/index.ts'
import { lines, type Watch, type WatchHub, type WatchSink } from '../watch/index.ts'

/** The identity of the plugins in this process. */
const pluginUser = Object.freeze({ name: 'setpoint:plugins', groups: Object.freeze(['setpoint:admins']) })

/**
 * The transport of plugins that run inside the server: the same requests, checks and responses as over HTTP, without
 * sockets.
 */
export class LoopbackTransport implements Transport {
  readonly #api: ResourceApi
  readonly #hub: WatchHub
  readonly #log: Logger

  constructor(parts: { api: ResourceApi; hub: WatchHub; log: Logger }) {
    this.#api = parts.api
    this.#hub = parts.hub
    this.#log = parts.log
  }

  async request(request: TransportRequest): Promise<TransportResponse> {
    request.signal?.throwIfAborted()
    const { method, path: target, headers = {}, body, signal } = request
    let response: ApiResponse
    try {
      const { path, served, query } = this.#resolve(target)
      response = await this.#api.handle(served, {
        method,
        path,
        query,
        headers,
        caller: callerOf(headers),
        readBody: async () => Buffer.from(body ?? ''),
        signal,
      })
    } catch (thrown) {
      signal?.throwIfAborted()
      response = errorResponse(toApiError(thrown, this.#log, { method, path: target }))
    }
    const bytes = Buffer.isBuffer(response.body) ? response.body : Buffer.concat([...response.body])
    response.release?.()
    return { status: response.status, headers: flatten(response.headers), body: bytes.toString() }
  }

  async watch(target: string, { signal }: WatchRequestOptions): Promise<WatchConnection> {
    try {
      const { path, served, query } = this.#resolve(target)
      const cache = this.#api.cacheOf(served)
      const request = readWatchRequest(cache, path, query, { bookmarksByDefault: true })
      const present = await this.#hub.admit(cache, request, signal)
      signal.throwIfAborted()
      return new LoopbackWatch(
        sink => this.#hub.open(cache, request, sink, present, { internal: true, caller: pluginUser.name }),
        signal,
      )
    } catch (thrown) {
      signal.throwIfAborted()
      throw toApiError(thrown, this.#log, { method: 'watch', path: target })
    }
  }

  #resolve(target: string): {
    path: NonNullable<ReturnType<typeof parseResourcePath>>
    served: ServedModel
    query: URLSearchParams
  } {
    const url = new URL(target, 'http://loopback')
    const path = parseResourcePath(url.pathname)
    const served = path && this.#api.modelOf(path)
    if (path === undefined || served === undefined)
      throw new ApiError('NotFound', `nothing is served at ${url.pathname}`)
    return { path, served, query: url.searchParams }
  }
}

function callerOf(headers: Readonly<Record<string, string>>): Caller {
  return { user: pluginUser, plugin: headers['x-setpoint-plugin'] }
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
