import { ApiError } from '@setpoint/controller-runtime/api'
import { verbOf } from '../../security/index.ts'
import type { Paths } from '../paths.ts'
import type { Middleware } from '../request-state.ts'
import { readBoolean } from '../watch-parameters.ts'

const noQuery = new URLSearchParams()

/** Finds the model and the object that the path names, and reads from the query whether to watch it. */
export function resource(paths: Paths): Middleware {
  return (ctx, next) => {
    const { state } = ctx
    const { target, path, record } = state
    if (path === undefined) throw paths.notServed(target.path)
    const found = paths.find(path)
    if (found !== undefined) {
      const { served } = found
      const scope = found.path.name === undefined ? 'collection' : 'object'
      record.concerns(served, found.path.version, scope)
      const query = target.query === '' ? noQuery : new URLSearchParams(target.query)
      const watch = isWatch(ctx.method, query)
      if (watch) record.concerns(served, found.path.version, 'watch')
      const verb = watch ? 'watch' : verbOf(ctx.method, scope)
      state.resource = { served, path: found.path, query, verb }
    }
    return next()
  }
}

function isWatch(method: string, query: URLSearchParams): boolean {
  if (readBoolean(query, 'watch') !== true) return false
  if (method !== 'GET') throw new ApiError('BadRequest', `watch is for GET, not for ${method}`)
  return true
}
