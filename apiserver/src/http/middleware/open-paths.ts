import { isApiError } from '@setpoint/controller-runtime/api'
import { docsPaths } from '../../openapi/index.ts'
import type { Access, Authorizer } from '../../security/index.ts'
import type { Context, Middleware } from '../request-state.ts'

/** Paths of probes, which have no credentials. To callers without any, the responses contain no more than names. */
const probes: ReadonlySet<string> = new Set(['/livez', '/readyz', '/healthz'])

/** The paths that need no credentials: probes, the version, and a page that asks for credentials. */
const open: ReadonlySet<string> = new Set([...probes, '/version', ...docsPaths])

interface OpenPathsParts {
  readonly access: Access
  readonly authorizer: Authorizer
}

/** Serves the paths that need no credentials. */
export function openPaths(parts: OpenPathsParts, system: Middleware): Middleware {
  return (ctx, next) => {
    const { path } = ctx.state
    if (path === undefined || !open.has(path)) return next()
    if (!probes.has(path)) return system(ctx, next)
    return mayRead(ctx, path, parts).then(may => {
      ctx.state.mayReadDetails = may
      return system(ctx, next)
    })
  }
}

/** Returns true for an authenticated caller who may get the path. */
async function mayRead(
  { req }: Context,
  path: string,
  { access, authorizer }: OpenPathsParts,
): Promise<boolean> {
  try {
    const { user } = await access.identify(req)
    authorizer.authorize(user, 'get', path)
    return true
  } catch (error) {
    if (isApiError(error)) return false
    throw error
  }
}
