import type { Authorizer } from '../../security/index.ts'
import { abortedByClose } from '../aborted-by-close.ts'
import { rightsOf } from '../caller-rights.ts'
import { readBodyInTurn } from '../request-seat.ts'
import type { Middleware } from '../request-state.ts'
import type { ResourceApi } from '../resource-api.ts'

/** Reads and writes objects. */
export function objects(api: ResourceApi, authorizer: Authorizer): Middleware {
  return async (ctx, next) => {
    const { info, caller, view, audit } = ctx.state
    if (info.served === undefined || info.verb === 'watch') return next()
    const { served, path, query, verb } = info
    const { req, method } = ctx
    const rights =
      verb === 'get' || verb === 'list'
        ? undefined
        : rightsOf(served, (verb, each) => authorizer.authorize(caller.user, verb, each))
    // A request for one object is short and needs no signal.
    const isLong = path.name === undefined && method !== 'POST'
    const gone = isLong ? abortedByClose(req, ctx.res) : undefined
    ctx.state.response = await api.handle(served, {
      method,
      path,
      query,
      headers: req.headers,
      caller,
      rights,
      view,
      readBody: () => readBodyInTurn(ctx),
      onDocument: audit?.onDocument,
      get signal() {
        return gone?.signal
      },
    })
  }
}
