import type { Revision } from '../../api/version.ts'
import { checkEvents } from './check-events.ts'
import { checkExpiry } from './check-expiry.ts'
import { checkOrder } from './check-order.ts'
import { checkInitialStates, checkList } from './check-states.ts'
import { checkWrites } from './check-writes.ts'
import type { Violation } from './guarantees.ts'
import type { RunLog } from './run-log.ts'
import { Truth } from './truth.ts'

/**
 * Every violation of `guarantees` in a run, none in a good one.
 *
 * @param options.upTo a version that every watcher must have got to in the end, by an event or a bookmark
 * @throws Error when no witness has seen a whole initial state: nothing can be said of such a run
 */
export function checkRun(log: RunLog, { upTo }: { readonly upTo?: Revision } = {}): Violation[] {
  const truth = new Truth(log)
  return [
    ...checkWrites(log, truth),
    ...log.watchers.flatMap(watcher => [
      ...checkOrder(watcher),
      ...checkInitialStates(watcher, truth),
      ...checkEvents(watcher, truth, upTo),
      ...checkExpiry(watcher),
    ]),
    ...log.lists.flatMap(list => checkList(list, truth)),
  ]
}
