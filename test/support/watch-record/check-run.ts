import type { Revision } from '@setpoint/controller-runtime/api'
import { checkEvents } from './check-events.ts'
import { checkExpiry } from './check-expiry.ts'
import { checkOrder } from './check-order.ts'
import { checkInitialStates, checkList } from './check-states.ts'
import { checkUniqueValues } from './check-unique.ts'
import { checkWrites } from './check-writes.ts'
import type { Violation } from './guarantees.ts'
import type { RunLog } from './run-log.ts'
import { Truth } from './truth.ts'

/**
 * Returns all violations of `guarantees` in a run.
 *
 * @param options.upTo the version that every watcher must reach, by an event or a bookmark
 * @throws Error if no witness has a complete initial state, since nothing can be checked then
 */
export function checkRun(log: RunLog, { upTo }: { readonly upTo?: Revision } = {}): Violation[] {
  const truth = new Truth(log)
  return [
    ...checkWrites(log, truth),
    ...checkUniqueValues(log, truth),
    ...log.watchers.flatMap(watcher => [
      ...checkOrder(watcher),
      ...checkInitialStates(watcher, truth),
      ...checkEvents(watcher, truth, upTo),
      ...checkExpiry(watcher),
    ]),
    ...log.lists.flatMap(list => checkList(list, truth)),
  ]
}
