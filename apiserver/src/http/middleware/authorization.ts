import type { Authorizer } from '../../security/index.ts'
import { attributesOfPath, targetOf } from '../request-attributes.ts'
import type { Middleware } from '../request-state.ts'

/** Checks that the caller may do what the request asks for. */
export function authorization(authorizer: Authorizer): Middleware {
  return (ctx, next) => {
    const { identity, resource, path = '' } = ctx.state
    if (resource !== undefined) authorizer.authorize(identity.user, resource.verb, targetOf(resource))
    else {
      const { verb, target } = attributesOfPath(ctx.method, path)
      authorizer.authorize(identity.user, verb, target)
    }
    return next()
  }
}
