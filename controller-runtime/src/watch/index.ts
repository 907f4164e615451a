/**
 * Watching, over many connections as if it were one. A `Watcher` turns the raw watches of a client into one endless,
 * gapless stream of events; whatever happens to connections and servers stays inside. It keeps no objects: that is
 * the informer's part (`cache/`).
 */
export {
  Watcher,
  type WatcherEvent,
  type WatcherOptions,
  type WatchSource,
  watcherDefaults,
} from './watcher.ts'
