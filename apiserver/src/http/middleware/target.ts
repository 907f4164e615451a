import type { IncomingMessage } from 'node:http'
import type { Access } from '../../security/index.ts'
import { MethodNotAllowedError } from '../error-response.ts'
import type { Paths } from '../paths.ts'
import type { Middleware } from '../request-state.ts'
import { readTarget } from '../request-target.ts'

const tunnelAlternatives = Object.freeze(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'])

/** Parses the target of the request, and rejects CONNECT, whose target is not a path. */
export function target(access: Pick<Access, 'identify'>, paths: Paths): Middleware {
  const refuseTunnel = async (req: IncomingMessage) => {
    await access.identify(req)
    throw new MethodNotAllowedError('CONNECT', tunnelAlternatives)
  }
  return (ctx, next) => {
    const { req, state } = ctx
    if (req.method === 'CONNECT') return refuseTunnel(req)
    const found = readTarget(req)
    const { path, query } = found
    state.target = found
    // Koa reads the path and the query from `ctx.url`, which must not have a host.
    if (!req.url?.startsWith('/')) ctx.url = query === '' ? path : `${path}?${query}`
    state.path = paths.belowBase(path)
    return next()
  }
}
