/**
 * Local copies of the server's objects: an `Informer` fills a store from a watcher and tells handlers what changes.
 * The copy is always some state that the server had, and is changed before anyone is told.
 */
export type { HandlerLag, InformerHandler } from './delivery.ts'
export {
  type HandlerRegistration,
  Informer,
  type InformerOptions,
  informerDefaults,
  type Lister,
} from './informer.ts'
export { type InformerLease, InformerPool, type InformerSelection, informerKey } from './informer-pool.ts'
export type { TransformOption } from './transform.ts'
