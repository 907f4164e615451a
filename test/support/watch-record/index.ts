/**
 * Checks whether the watches of a run were correct. A `RunRecorder` records what writers and watchers received, as
 * plain data (`RunLog`); `checkRun` then finds violations of `guarantees`, each of which is checked on its own. The
 * guarantees are those of etcd's robustness tests for watches, plus those of lists and selectors.
 */
export type { Violation } from './guarantees.ts'
export { type ConnectionRecorder, RunRecorder, type WatcherRecorder } from './recorder.ts'
export type { EventRecord, RunLog, WriteOutcome, WriteRecord } from './run-log.ts'
