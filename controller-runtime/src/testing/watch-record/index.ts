/**
 * Checks whether the watches of a run were correct. A `RunRecorder` records what writers and watchers received, as plain
 * data (`RunLog`); `checkRun` then finds violations of `guarantees`, each of which is checked on its own. The guarantees
 * are those of etcd's robustness tests for watches, plus those of lists and selectors.
 */
export { checkRun } from './check-run.ts'
export { type Guarantee, guarantees, type Violation } from './guarantees.ts'
export {
  type ConnectionRecorder,
  RunRecorder,
  type RunRecorderOptions,
  type WatcherOptions,
  type WatcherRecorder,
} from './recorder.ts'
export type {
  ConnectionRecord,
  EventRecord,
  ListRecord,
  RunLog,
  WatcherRecord,
  WriteOutcome,
  WriteRecord,
} from './run-log.ts'
