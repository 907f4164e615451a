import { isApiError } from '@setpoint/controller-runtime/api'
import { docsPaths } from '../../openapi/index.ts'
import type { Access, Authorizer } from '../../security/index.ts'
import type { Context, Middleware } from '../request-state.ts'

/**
 * Paths of probes, which have no credentials, with single checks below them. Callers without credentials see the names
 * of checks only, not the reasons.
 */
const probes: ReadonlySet<string> = new Set(['/livez', '/readyz', '/healthz'])

/** The other paths that need no credentials: the version, how to sign in, and a page that asks for credentials. */
const open: ReadonlySet<string> = new Set(['/version', '/sign-in', ...docsPaths])

interface OpenPathsParts {
  readonly access: Access
  readonly authorizer: Authorizer
}

/** Serves the paths that need no credentials. */
export function openPaths(parts: OpenPathsParts, system: Middleware): Middleware {
  return (ctx, next) => {
    const { path } = ctx.state
    if (path === undefined) return next()
    if (open.has(path)) return system(ctx, next)
    const probe = firstSegment(path)
    if (!probes.has(probe)) return next()
    return mayRead(ctx, probe, parts).then(may => {
      ctx.state.mayReadDetails = may
      return system(ctx, next)
    })
  }
}

/** Returns the first segment of a path, with the slash before it. */
function firstSegment(path: string): string {
  const end = path.indexOf('/', 1)
  return end < 0 ? path : path.slice(0, end)
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
