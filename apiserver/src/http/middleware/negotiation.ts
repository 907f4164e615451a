import { negotiateObject } from '../object-negotiation.ts'
import type { Middleware } from '../request-state.ts'

const json = ['application/json'] as const
const streams = ['application/json', 'text/event-stream'] as const

/** Checks that the client accepts what is served for objects, and chooses its form. */
export function negotiation(): Middleware {
  return (ctx, next) => {
    const { state, req } = ctx
    const { info } = state
    if (info.served === undefined) return next()
    const { type, view } = negotiateObject(req.headers.accept, info, info.verb === 'watch' ? streams : json)
    state.streamForm = type === 'text/event-stream' ? 'events' : 'lines'
    state.view = view
    return next()
  }
}
