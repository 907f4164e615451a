/**
 * Local copies of the server's objects: an `Informer` fills a store from a watcher and tells handlers what changes.
 * The copy is always some state that the server had, and is changed before anyone is told.
 */
export type { InformerHandler } from './delivery.ts'
export {
  type HandlerRegistration,
  Informer,
  type InformerOptions,
  informerDefaults,
  type Lister,
} from './informer.ts'
