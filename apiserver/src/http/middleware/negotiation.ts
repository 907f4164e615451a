import { ApiError } from '@setpoint/controller-runtime/api'
import type { Middleware } from '../request-state.ts'

/** JSON, also for clients that name its only character encoding. */
const jsonTypes = ['application/json', 'application/json;charset=utf-8']
const watchTypes = [...jsonTypes, 'text/event-stream']

/** Checks that the client accepts what is served for objects, and chooses the form of a watch. */
export function negotiation(): Middleware {
  return (ctx, next) => {
    const { state, req } = ctx
    if (state.resource === undefined) return next()
    const { accept } = req.headers
    state.streamForm = 'lines'
    if (accept === undefined || accept === '*/*' || accept === 'application/json') return next()
    const type = ctx.accepts(state.resource.verb === 'watch' ? watchTypes : jsonTypes)
    if (type === false)
      throw new ApiError(
        'NotAcceptable',
        `only application/json can be produced, not ${JSON.stringify(accept.slice(0, 200))}`,
      )
    if (type === 'text/event-stream') state.streamForm = 'events'
    return next()
  }
}
