import type { Router } from '@koa/router'
import { quote } from '../model/index.ts'
import { badRequest } from '../registry/index.ts'
import type { WatchHub } from '../watch/index.ts'
import { abortedByClose } from './aborted-by-close.ts'
import type { CallerCounts } from './caller-counts.ts'
import { Profiler, profilerDefaults } from './profiler.ts'
import type { Context, RequestState } from './request-state.ts'

export interface DebugRoutesParts {
  readonly callers: CallerCounts
  readonly hub: Pick<WatchHub, 'byCaller'>
  /** The settings in force, without secrets. */
  readonly settings: object
}

/**
 * Adds what an administrator looks at when a server is slow. The paths are those of Kubernetes where it has them. Of
 * the default roles, only those of administrators grant them.
 */
export function addDebugRoutes(router: Router<RequestState>, parts: DebugRoutesParts): void {
  const { callers, hub, settings } = parts
  const profiler = new Profiler()
  const json = (read: () => object) => (ctx: Context) => {
    ctx.type = 'application/json'
    ctx.body = `${JSON.stringify(read(), undefined, 2)}\n`
  }
  router.get(
    '/configz',
    json(() => ({ setpoint: settings })),
  )
  router.get(
    '/debug/callers',
    json(() => callers.largest()),
  )
  router.get(
    '/debug/watches',
    json(() => hub.byCaller()),
  )
  router.get('/debug/pprof/profile', async (ctx: Context) => {
    const seconds = readSeconds(new URLSearchParams(ctx.querystring).get('seconds'))
    download(ctx, 'cpuprofile')
    // A profile takes its time, so it is not taken for its headers alone.
    if (ctx.method === 'GET') ctx.body = await profiler.profile(seconds, abortedByClose(ctx.req, ctx.res))
  })
  router.get('/debug/pprof/heap', async (ctx: Context) => {
    download(ctx, 'heapsnapshot')
    if (ctx.method === 'GET') ctx.body = await profiler.heap()
  })
}

function download(ctx: Context, extension: string): void {
  ctx.status = 200
  ctx.set('content-disposition', `attachment; filename="setpoint.${extension}"`)
  // Not JSON, which the audit log would record.
  ctx.type = 'application/octet-stream'
}

/** @throws ApiError 400 */
function readSeconds(text: string | null): number {
  if (text === null) return profilerDefaults.seconds
  const seconds = /^\d{1,3}$/.test(text) ? Number(text) : 0
  if (seconds < 1 || seconds > profilerDefaults.mostSeconds)
    throw badRequest(`seconds ${quote(text)} is not a whole number from 1 to ${profilerDefaults.mostSeconds}`)
  return seconds
}
