import type { Authorizer } from '../../security/index.ts'
import type { Middleware } from '../request-state.ts'

/** Checks that the caller may do what the request asks for. */
export function authorization(authorizer: Authorizer): Middleware {
  return (ctx, next) => {
    const { identity, info, audit } = ctx.state
    authorizer.authorize(identity.user, info.verb, info.target)
    audit?.allowed()
    return next()
  }
}
