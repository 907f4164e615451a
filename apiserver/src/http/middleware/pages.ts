import { negotiate } from '../accept.ts'
import type { PluginPages } from '../plugin-pages.ts'
import type { Context, Middleware } from '../request-state.ts'

/** The page for people, if the plugin `console` serves it. */
export const consolePath = '/console'

/** Serves the pages of plugins, which need no credentials, and sends browsers that ask for `/` to the console. */
export function pages(plugins: PluginPages, basePath: string): Middleware {
  return (ctx, next) => {
    const { path } = ctx.state
    if ((path === '' || path === '/') && plugins.has(consolePath) && wantsPage(ctx)) {
      ctx.set({ 'cache-control': 'no-store' })
      ctx.redirect(`${basePath}${consolePath}`)
      ctx.body = ''
      return Promise.resolve()
    }
    return plugins.serve(ctx) ?? next()
  }
}

/** Returns true for a browser. Other programs take any type, or JSON. */
function wantsPage({ method, req }: Context): boolean {
  if (method !== 'GET' && method !== 'HEAD') return false
  const { accept } = req.headers
  if (accept === undefined || !accept.includes('text/html')) return false
  return negotiate(accept, ['text/html', 'application/json'], () => undefined)?.type === 'text/html'
}
