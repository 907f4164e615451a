import type { Middleware } from '../request-state.ts'
import { send } from '../sender.ts'

/** Sends the response that the middleware after it has put into the state. */
export function sending(): Middleware {
  return async (ctx, next) => {
    await next()
    const { response } = ctx.state
    if (response !== undefined) await send(ctx, response)
  }
}
