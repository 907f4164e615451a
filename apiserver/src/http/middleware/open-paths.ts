import { docsPaths } from '../../openapi/index.ts'
import type { Middleware } from '../request-state.ts'

/** Paths that probes read without credentials, and a page that asks for them. */
const open: ReadonlySet<string> = new Set(['/livez', '/readyz', '/healthz', '/version', ...docsPaths])

/** Serves the paths that need no credentials. */
export function openPaths(system: Middleware): Middleware {
  return (ctx, next) => {
    const { path } = ctx.state
    if (path === undefined || !open.has(path)) return next()
    return system(ctx, next)
  }
}
