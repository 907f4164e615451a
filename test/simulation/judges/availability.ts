import { type Call, type History, titleOf, type Violation } from '../history.ts'
import { gears } from '../kinds.ts'
import { hasVersion, isUniqueIn } from '../releases.ts'
import { secondVersion } from '../versions.ts'

const judge = 'availability'

/** Milliseconds that a reload may take while nothing goes wrong. */
const reloadMs = 3_000

/** Milliseconds after the end of a reload in which a request that was under way may still be refused. */
const restMs = 100

/**
 * Where nothing goes wrong, every request gets a response, and only reloads refuse any with 503: reads of a kind while the same
 * server replaces it, and writes as long as another server has put other unique indexes in force or computes their values. A
 * server that does not know the version that objects are stored in refuses both.
 */
export function judgeAvailability(history: History): Violation[] {
  if (!history.isCalm) return []
  const found: Violation[] = []
  for (const call of history.calls) {
    const { outcome, id, type, at, server } = call
    if (outcome.type === 'pending') continue
    const isServed = outcome.type === 'responded' && outcome.status < 500 && outcome.status !== 429
    if (isServed || mayRefuse(call, outcome.at, history)) continue
    const message = `call ${id} (${type}) to server ${server} failed, and nothing had gone wrong: ${JSON.stringify(outcome)}`
    found.push({ judge, at, message })
  }
  for (const { server, from, to } of reloadsIn(history))
    if (to - from > reloadMs)
      found.push({ judge, at: to, message: `server ${server} reloaded for ${to - from} ms` })
  return found
}

function mayRefuse(call: Call, to: number, history: History): boolean {
  const { at: from, server, resource, type } = call
  // The indexes of a definition are built in the background.
  if (titleOf(resource) === titleOf(gears)) return true
  if (!resource.group.startsWith('sim.')) return false
  const isReloading = reloadsIn(history).some(
    each => each.server === server && each.from <= to && each.to + restMs >= from,
  )
  if (isReloading) return true
  const releases = history.served.filter(
    each => each.server === server && each.from <= to && each.until >= from,
  )
  const records = recordsDuring(history, titleOf(resource), { from, to })
  return records.some(({ uniqueness, mayStore }) =>
    releases.some(({ release }) => {
      if (mayStore.includes(secondVersion) && !hasVersion(release, secondVersion)) return true
      const wanted = isUniqueIn(release, resource) ? 'in force' : 'none'
      return type === 'write' && uniqueness !== wanted
    }),
  )
}

/** Returns the times in which a server has loaded two releases. */
function reloadsIn({ served, endedAt }: History): { server: number; from: number; to: number }[] {
  return served.flatMap(next =>
    served
      .filter(
        each =>
          each !== next && each.server === next.server && each.from <= next.from && each.until > next.from,
      )
      .map(each => ({ server: next.server, from: next.from, to: Math.min(each.until, next.until, endedAt) })),
  )
}

function recordsDuring(
  { records }: History,
  resource: string,
  { from, to }: { readonly from: number; readonly to: number },
): History['records'] {
  const all = records.filter(each => each.resource === resource && each.at <= to)
  const first = all.findLastIndex(({ at }) => at <= from)
  return all.slice(Math.max(0, first))
}
