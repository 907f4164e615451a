import type { History, Violation } from '../history.ts'
import { specOf } from '../objects.ts'

const judge = 'leaders'

/**
 * Controllers, in a process of their own or in a server, write only while no other process holds the lease. A restore
 * brings an earlier holder back, so then nothing follows.
 */
export function judgeLeaders({ leases, leaderWrites, restores }: History): Violation[] {
  if (restores.length > 0) return []
  return leaderWrites.flatMap(({ at, identity, path }) => {
    const holder = specOf(leases.findLast(lease => lease.at <= at)?.object).holderIdentity
    if (holder === identity || holder === '') return []
    return [
      { judge, at, message: `${identity} wrote to ${path} while the lease was held by ${String(holder)}` },
    ]
  })
}
