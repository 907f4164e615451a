import type { Readable } from 'node:stream'
import type { Router } from '@koa/router'
import { ApiError, type Revision } from '@setpoint/controller-runtime/api'
import { toRevision } from '@setpoint/controller-runtime/internal'
import { quote } from '../model/index.ts'
import { badRequest, withApiErrors } from '../registry/index.ts'
import { abortedByClose } from './aborted-by-close.ts'
import type { Context, RequestState } from './request-state.ts'

export const operationsDefaults = Object.freeze({
  /** The `Retry-After` of a backup that is refused because another one is under way. */
  retryAfterSeconds: 30,
})

/** What a backup is the increment of. */
interface Preceding {
  readonly revision: Revision
  readonly sha256: string
}

export interface OperationsRoutesParts {
  /** Makes a backup of the store, as bytes of a file. Undefined where backups are not served. */
  readonly backup?: (options: {
    readonly since: Preceding | undefined
    readonly signal: AbortSignal
  }) => Promise<Readable>
}

/**
 * Adds `/operations/backup`, which streams a backup of the store, with Secrets and all else. Of the default roles, only
 * those of administrators grant it. One backup at a time is made: each holds a page of the store in memory and
 * compresses it.
 *
 * The response has no length. If the backup fails, the connection ends without the last chunk, and the client has no
 * footer.
 */
export function addOperationsRoutes(
  router: Router<RequestState>,
  { backup, log }: OperationsRoutesParts & { readonly log: { warn(fields: object, message: string): void } },
): void {
  if (backup === undefined) return
  let isBusy = false
  router.get('/operations/backup', async (ctx: Context) => {
    const since = precedingIn(new URLSearchParams(ctx.querystring))
    ctx.status = 200
    ctx.set('content-disposition', 'attachment; filename="setpoint.backup"')
    ctx.set('cache-control', 'no-store')
    ctx.type = 'application/octet-stream'
    // It is not made for its headers alone.
    if (ctx.method !== 'GET') return
    if (isBusy)
      throw new ApiError('TooManyRequests', 'another backup is being taken from this server', {
        retryAfterSeconds: operationsDefaults.retryAfterSeconds,
      })
    isBusy = true
    const signal = abortedByClose(ctx.req, ctx.res)
    const stream = await withApiErrors(backup({ since, signal })).catch((error: unknown) => {
      isBusy = false
      throw error
    })
    const { res } = ctx
    stream.once('close', () => {
      isBusy = false
    })
    stream.once('error', error => {
      if (!signal.aborted) log.warn({ err: error }, 'failed to complete a backup')
      // Without its last chunk, so that the client notices. Koa would leave the response open.
      res.destroy()
    })
    ctx.body = stream
  })
}

/** @throws ApiError 400 */
function precedingIn(query: URLSearchParams): Preceding | undefined {
  const [since, sha256] = [query.get('since'), query.get('sha256')]
  if (since === null && sha256 === null) return undefined
  if (since === null || !/^\d{1,15}$/.test(since))
    throw badRequest(`since ${quote(since ?? '')} is not the version of a backup`)
  if (sha256 === null || !/^[0-9a-f]{64}$/.test(sha256))
    throw badRequest(`sha256 ${quote(sha256 ?? '')} is not the checksum of a backup`)
  return { revision: toRevision(Number(since)), sha256 }
}
