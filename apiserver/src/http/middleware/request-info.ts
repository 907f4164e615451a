import { ApiError } from '@setpoint/controller-runtime/api'
import type { Paths } from '../paths.ts'
import { nothingServed } from '../request-info.ts'
import type { Middleware } from '../request-state.ts'
import { readBoolean } from '../watch-parameters.ts'

/** Reads what the request asks for. */
export function requestInfo(paths: Paths): Middleware {
  return (ctx, next) => {
    const { state, method } = ctx
    const { target, path, record, audit } = state
    if (path === undefined) throw nothingServed(target.path)
    const info = paths.read(method, path, target.query)
    state.info = info
    audit?.concerns(info)
    if (info.served !== undefined) {
      const scope = info.path.name === undefined ? 'collection' : 'object'
      record.concerns(info.served, info.path.version, info.verb === 'watch' ? 'watch' : scope)
      // Also rejects a malformed value.
      if (target.query !== '' && readBoolean(info.query, 'watch') === true && info.verb !== 'watch')
        throw new ApiError('BadRequest', `watch is for GET, not for ${method}`)
    }
    return next()
  }
}
