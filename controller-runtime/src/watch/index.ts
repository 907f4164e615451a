/**
 * A `Watcher` turns the raw watches of a client into one gapless stream of events that survives disconnects and server
 * restarts. It keeps no objects; the informer does (`cache/`).
 */
export {
  Watcher,
  type WatcherEvent,
  type WatcherOptions,
  type WatchSource,
  watcherDefaults,
} from './watcher.ts'
