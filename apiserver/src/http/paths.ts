import { ApiError } from '@setpoint/controller-runtime/api'
import type { ServedModel } from '../model/index.ts'
import { retryAfterSeconds } from '../registry/index.ts'
import type { ResourcePath } from './api-request.ts'
import { type RequestInfo, type ResourceRequest, readRequestInfo, unreadable } from './request-info.ts'
import type { ResourceApi } from './resource-api.ts'

export interface PathsParts {
  readonly api: Pick<ResourceApi, 'visibleModelOf'>
  /** Precedes every path: '' or '/x'. */
  readonly basePath: string
  /** True while plugins may still add kinds and routes. */
  readonly isStarting: () => boolean
}

/** Reads what the requests of clients ask for. */
export class Paths {
  readonly #parts: PathsParts
  readonly #modelOf: (path: ResourcePath) => ServedModel | undefined

  constructor(parts: PathsParts) {
    this.#parts = parts
    this.#modelOf = path => parts.api.visibleModelOf(path)
  }

  /** Returns the path below the base path, or undefined for a path outside of it. */
  belowBase(path: string): string | undefined {
    const { basePath } = this.#parts
    if (basePath === '') return path
    if (!path.startsWith(basePath)) return undefined
    const below = path.slice(basePath.length)
    return below === '' || below.startsWith('/') ? below : undefined
  }

  /** Reads a request for a path below the base path. @throws URIError for a segment that cannot be decoded */
  read(method: string, path: string, query: string): RequestInfo {
    return readRequestInfo(method, path, query, this.#modelOf)
  }

  /** Reads a request that was refused before the chain read it, for the audit log. Never throws. */
  readEarly(method: string, url: string): RequestInfo {
    const [path = '', query = ''] = url.split('?', 2)
    const below = path.startsWith('/') ? this.belowBase(path) : undefined
    try {
      return below === undefined ? unreadable(method, path) : this.read(method, below, query)
    } catch {
      // A segment cannot be decoded.
      return unreadable(method, path)
    }
  }

  /** Returns a request for objects that can be watched. @throws ApiError 404, 503 while plugins are starting */
  watchable(info: RequestInfo, fullPath: string, path = this.belowBase(fullPath)): ResourceRequest {
    if (info.served === undefined || info.path.subresource !== undefined) throw this.notServed(fullPath, path)
    return info
  }

  /** The error for a path that names nothing: 404, or 503 while plugins are starting. */
  notServed(fullPath: string, path = this.belowBase(fullPath)): ApiError {
    const shown = fullPath.slice(0, 200)
    if (!path?.startsWith('/apis/') || !this.#parts.isStarting())
      return new ApiError('NotFound', `nothing is served at ${shown}`)
    return new ApiError(
      'ServiceUnavailable',
      `plugins are still starting and may serve ${shown}: retry later`,
      { retryAfterSeconds },
    )
  }
}
