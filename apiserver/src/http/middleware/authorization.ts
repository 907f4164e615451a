import { authorize, verbOf } from '../../security/index.ts'
import type { Middleware } from '../request-state.ts'

/** Checks that the caller may do what the request asks for, by kind for objects and by path for all else. */
export function authorization(): Middleware {
  return (ctx, next) => {
    const { identity, resource, path = '' } = ctx.state
    if (resource !== undefined) authorize(identity.user, resource.verb, resource.served.title)
    else authorize(identity.user, verbOf(ctx.method, 'object'), path)
    return next()
  }
}
