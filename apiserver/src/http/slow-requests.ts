import type { Logger } from '../log/index.ts'
import { shorten } from '../model/index.ts'
import type { Context, RequestState } from './request-state.ts'

export const slowRequestDefaults = Object.freeze({
  /** Characters of a path, and of the names of its parameters together, in a line of the log. */
  shown: 512,
})

/**
 * Logs requests that took longer than a time, with where it went. Leaves out watches, and profiles and backups, which
 * take long on purpose. The values of parameters are left out, because they may be secret. The log bounds how many
 * lines are written.
 */
export class SlowRequests {
  readonly #log: Logger
  readonly #thresholdMs: number

  /** @param thresholdMs 0 if none is logged */
  constructor(log: Logger, thresholdMs: number) {
    this.#log = log
    this.#thresholdMs = thresholdMs || Number.POSITIVE_INFINITY
  }

  /** @param code undefined if the client has left */
  check(ctx: Context, ms: number, code: number | undefined): void {
    if (ms < this.#thresholdMs) return
    const { record, caller, path, target }: Partial<RequestState> = ctx.state
    if (record === undefined || record.verb === 'WATCH' || path?.match(longPaths)) return
    const { queueMs, bodyMs, storeMs } = record
    this.#log.warn(
      {
        user: caller?.user.name,
        verb: record.verb,
        resource: record.kind?.title,
        path: shorten(path ?? target?.path ?? '', slowRequestDefaults.shown),
        parameters: namesOf(target?.query ?? ''),
        code,
        ms: Math.round(ms),
        queueMs: Math.round(queueMs),
        bodyMs: Math.round(bodyMs),
        storeMs: Math.round(storeMs),
      },
      'slow request',
    )
  }
}

/** What takes long on purpose. */
const longPaths = /^\/(debug|operations)\//

/** Returns the names of the parameters in a query, or undefined if there are none. */
function namesOf(query: string): string | undefined {
  if (query === '') return undefined
  const names = new Set(new URLSearchParams(query).keys())
  return shorten([...names].join(' '), slowRequestDefaults.shown)
}
