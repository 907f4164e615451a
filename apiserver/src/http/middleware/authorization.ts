import type { Authorizer } from '../../security/index.ts'
import { enforce } from '../authorize-request.ts'
import type { Middleware } from '../request-state.ts'

/** Checks that the caller may do what the request asks for. */
export function authorization(authorizer: Authorizer): Middleware {
  return (ctx, next) => {
    const { identity, info, audit } = ctx.state
    const { user } = identity
    enforce(authorizer.grantOf(user, info.verb, info.target), user, info, audit)
    return next()
  }
}
