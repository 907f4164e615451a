import type { Subscription } from './subscription.ts'

export const watchesByCallerDefaults = Object.freeze({
  /** Rows that are shown, those with the most watches first. */
  rows: 500,
})

/** The open watches of a caller on a kind. */
interface WatchRow {
  readonly caller: string
  readonly resource: string
  watches: number
  /** Those that are still sent the present state or old changes. */
  behind: number
  /** Bytes that the slowest of them has not read. */
  backlogBytes: number
}

/** The open watches, and how many of them have no row. */
export interface WatchesByCaller {
  readonly open: number
  readonly rows: readonly WatchRow[]
  readonly others: number
}

/** Counts watches by caller and kind. @param watches the watches of each kind, by its title */
export function watchesByCaller(
  watches: Iterable<readonly [resource: string, subscriptions: Iterable<Subscription>]>,
): WatchesByCaller {
  const all: WatchRow[] = []
  let open = 0
  for (const [resource, subscriptions] of watches) {
    const rows = new Map<string, WatchRow>()
    for (const { caller, isLive, backlog } of subscriptions) {
      const row = rows.get(caller) ?? { caller, resource, watches: 0, behind: 0, backlogBytes: 0 }
      rows.set(caller, row)
      row.watches++
      if (!isLive) row.behind++
      row.backlogBytes = Math.max(row.backlogBytes, backlog)
      open++
    }
    all.push(...rows.values())
  }
  const rows = all.sort((a, b) => b.watches - a.watches).slice(0, watchesByCallerDefaults.rows)
  const shown = rows.reduce((sum, { watches }) => sum + watches, 0)
  return { open, rows, others: open - shown }
}
