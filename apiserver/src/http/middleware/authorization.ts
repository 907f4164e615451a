import type { Authorizer } from '../../security/index.ts'
import type { Middleware } from '../request-state.ts'

/** Checks that the caller may do what the request asks for, by kind for objects and by path for all else. */
export function authorization(authorizer: Authorizer): Middleware {
  return (ctx, next) => {
    const { identity, resource, path = '' } = ctx.state
    if (resource !== undefined) authorizer.authorize(identity.user, resource.verb, resource.path)
    else authorizer.authorize(identity.user, ctx.method.toLowerCase(), path)
    return next()
  }
}
