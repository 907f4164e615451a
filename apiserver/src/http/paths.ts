import { withoutWatch } from './api-request.ts'
import type { CustomRoutes } from './custom-routes.ts'
import { type RequestInfo, readRequestInfo, type Served, unreadable } from './request-info.ts'
import type { ResourceApi } from './resource-api.ts'

interface PathsParts {
  readonly api: Pick<ResourceApi, 'visibleModelOf'>
  readonly routes: Pick<CustomRoutes, 'mayServeWatch'>
  /** Precedes every path: '' or '/x'. */
  readonly basePath: string
  /** True while plugins may still add kinds and routes. */
  readonly isStarting: () => boolean
}

/** Reads what the requests of clients ask for. */
export class Paths {
  readonly #basePath: string
  readonly #served: Served
  readonly #routes: PathsParts['routes']

  constructor({ api, routes, basePath, isStarting }: PathsParts) {
    this.#basePath = basePath
    this.#served = { modelOf: path => api.visibleModelOf(path), isStarting }
    this.#routes = routes
  }

  /** Returns the path below the base path, or undefined for a path outside of it. */
  belowBase(path: string): string | undefined {
    const basePath = this.#basePath
    if (basePath === '') return path
    if (!path.startsWith(basePath)) return undefined
    const below = path.slice(basePath.length)
    return below === '' || below.startsWith('/') ? below : undefined
  }

  /**
   * Reads a request for a path below the base path. As in Kubernetes (`RequestInfoFactory`), a path with `watch/`
   * before the resource is a watch of that resource; a kind or a plugin's route of that path comes first.
   * @throws URIError for a segment that cannot be decoded
   */
  read(method: string, path: string, query: string): RequestInfo {
    const info = readRequestInfo(method, path, query, this.#served)
    const watched = info.served === undefined ? withoutWatch(path) : undefined
    if (watched === undefined || this.#routes.mayServeWatch(path)) return info
    const parameters = new URLSearchParams(query)
    parameters.set('watch', 'true')
    const watch = readRequestInfo(method, watched, parameters.toString(), this.#served)
    return watch.served === undefined || watch.path.subresource !== undefined ? info : watch
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
}
