import { ApiError } from '@setpoint/controller-runtime/api'
import { headerOf } from '../api-request.ts'
import type { Connections } from '../connections.ts'
import { MethodNotAllowedError } from '../error-response.ts'
import { HandshakeResponse } from '../handshake-response.ts'
import { watchable } from '../request-info.ts'
import type { Context, Middleware } from '../request-state.ts'
import type { WatchApi } from '../watch-api.ts'
import { multiplexProtocol, offersMultiplexing } from '../watch-sockets.ts'

/** Serves watches over plain HTTP and WebSockets. Errors before the first event are ordinary responses. */
export function watches(api: WatchApi, connections: Connections): Middleware {
  return async (ctx, next) => {
    const { req, res, state } = ctx
    const { info, identity, streamForm, view, audit } = state
    const isHandshake = res instanceof HandshakeResponse
    if (info.served === undefined && !isHandshake) return next()
    if (audit !== undefined) res.setHeader('Audit-ID', audit.id)
    if (isHandshake) await openSocket(ctx, res, api)
    else if (info.served !== undefined) {
      const lastEventId = headerOf(req.headers, 'last-event-id')
      await api.stream({ ...info, view }, res, streamForm, identity, lastEventId)
      connections.streams(res)
    }
    ctx.respond = false
  }
}

/** Completes a handshake, for one watch or for many. */
async function openSocket(
  { req, state }: Context,
  handshake: HandshakeResponse,
  api: WatchApi,
): Promise<void> {
  const { info, identity, target, path, view } = state
  const isForMany = path === '/apis'
  const watched = isForMany ? undefined : watchable(info, target.path, path)
  if (isForMany && !offersMultiplexing(req))
    throw new ApiError('BadRequest', `a WebSocket at /apis needs the sub-protocol ${multiplexProtocol}`)
  if (req.method !== 'GET') throw new MethodNotAllowedError(String(req.method), ['GET'])
  if (watched === undefined) await api.multiplex(handshake, identity)
  else await api.upgrade({ ...watched, view }, handshake, identity)
}
