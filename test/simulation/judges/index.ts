/**
 * Each judge compares a history with one part of the contract. It is a pure function: what it says depends on nothing but the
 * history, so that a judge is tested on histories written by hand, good and bad.
 */
import type { History, Judge, Violation } from '../history.ts'
import { judgeAccess } from './access.ts'
import { judgeAvailability } from './availability.ts'
import { judgeBounds } from './bounds.ts'
import { judgeConvergence } from './convergence.ts'
import { judgeDefinitions } from './definitions.ts'
import { judgeLeaders } from './leaders.ts'
import { judgeLife } from './life.ts'
import { judgeReads } from './reads.ts'
import { isFromMemory, judgeRestores, overrun } from './restores.ts'
import { judgeUniqueValues } from './values.ts'
import { judgeWatches } from './watches.ts'
import { judgeWrites } from './writes.ts'

const judges: readonly Judge[] = [
  judgeWrites,
  judgeReads,
  judgeUniqueValues,
  judgeWatches,
  judgeLife,
  judgeAccess,
  judgeLeaders,
  judgeRestores,
  judgeAvailability,
  judgeDefinitions,
  judgeConvergence,
]

export { isFromMemory, judgeBounds, judgeConvergence, overrun }

/** Judges what happened while things went wrong, so that nothing has to be done yet. */
export function judgeSoFar(history: History): Violation[] {
  return judges.filter(judge => judge !== judgeConvergence).flatMap(judge => judge(history))
}

export function judgeAll(history: History): Violation[] {
  return judges.flatMap(judge => judge(history))
}
