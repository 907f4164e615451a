/**
 * The queue between events and reconcilers. It holds the keys that need work, with their priority and time. A key is
 * not returned again while it is processed.
 */
export type { WorkQueueObserver } from './queue-observer.ts'
export type { Ageing } from './ready-queue.ts'
export {
  type AddOptions,
  priorities,
  type WorkItem,
  WorkQueue,
  type WorkQueueOptions,
  workQueueDefaults,
} from './work-queue.ts'
