import { ApiError } from '@setpoint/controller-runtime/api'
import { retryAfterSeconds } from '../registry/index.ts'
import { parseResourcePath } from './api-request.ts'
import type { Resource } from './request-state.ts'
import type { ResourceApi } from './resource-api.ts'

export interface PathsParts {
  readonly api: Pick<ResourceApi, 'visibleModelOf'>
  /** Precedes every path: '' or '/x'. */
  readonly basePath: string
  /** True while plugins may still add kinds and routes. */
  readonly isStarting: () => boolean
}

/** Finds what a path names. */
export class Paths {
  readonly #parts: PathsParts

  constructor(parts: PathsParts) {
    this.#parts = parts
  }

  /** Returns the path below the base path, or undefined for a path outside of it. */
  belowBase(path: string): string | undefined {
    const { basePath } = this.#parts
    if (basePath === '') return path
    if (!path.startsWith(basePath)) return undefined
    const below = path.slice(basePath.length)
    return below === '' || below.startsWith('/') ? below : undefined
  }

  /** Returns the object or collection that a path below the base path names. @throws URIError */
  find(path: string): Resource | undefined {
    const resource = parseResourcePath(path)
    if (resource === undefined) return undefined
    const served = this.#parts.api.visibleModelOf(resource)
    return served && { served, path: resource }
  }

  /** Returns what a full path names for a watch. @throws ApiError 404, 503 while plugins are starting */
  watched(fullPath: string, path = this.belowBase(fullPath)): Resource {
    const resource = path === undefined ? undefined : this.find(path)
    if (resource === undefined || resource.path.subresource !== undefined)
      throw this.notServed(fullPath, path)
    return resource
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
