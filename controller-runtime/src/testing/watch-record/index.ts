/**
 * Whether the watches of a run told the truth. A `RunRecorder` takes down what writers were told and what watchers
 * saw; `checkRun` says afterwards where that breaks a guarantee. What is taken down is plain data (`RunLog`), each
 * guarantee is checked by itself, and `guarantees` says what each means. The guarantees are those that etcd's
 * robustness tests check of its watches, with what lists and selectors add.
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
