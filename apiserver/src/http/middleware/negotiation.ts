import { HandshakeResponse } from '../handshake-response.ts'
import { negotiateObject } from '../object-negotiation.ts'
import type { Middleware } from '../request-state.ts'

const json = ['application/json'] as const
const streams = ['application/json', 'text/event-stream'] as const

/** Checks that the client accepts what is served for objects, and chooses its form. */
export function negotiation(): Middleware {
  return (ctx, next) => {
    const { state, req, res } = ctx
    const { info } = state
    if (info.served === undefined) return next()
    const isStream = info.verb === 'watch' && !(res instanceof HandshakeResponse)
    const { type, view } = negotiateObject(req.headers.accept, info, isStream ? streams : json)
    state.streamForm = type === 'text/event-stream' ? 'events' : 'lines'
    state.view = view
    return next()
  }
}
