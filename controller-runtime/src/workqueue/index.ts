/**
 * The queue between events and reconciles: which keys need work, in which order, and not before when. It knows
 * neither objects nor reconciles, runs nothing, and holds a key back while it is worked on.
 */
export type { WorkQueueObserver } from './queue-observer.ts'
export type { Ageing } from './ready-lanes.ts'
export {
  type AddOptions,
  priorities,
  type WorkItem,
  WorkQueue,
  type WorkQueueOptions,
  workQueueDefaults,
} from './work-queue.ts'
