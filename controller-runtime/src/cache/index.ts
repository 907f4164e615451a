/**
 * Local copies of the server's objects. An `Informer` fills its store from a watcher, and then notifies handlers. The
 * store always equals the server's state at some version.
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
