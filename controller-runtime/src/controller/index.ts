/**
 * Controllers. A `ControllerBuilder` declares what to do; a `Controller` reconciles one object at a time, retries
 * failures, never reads state older than its own last write, and keeps a finalizer until clean-up has succeeded.
 */
export {
  ControllerBuilder,
  type ControllerDefinition,
  controllerDefaults,
  type RetryOptions,
} from './builder.ts'
export { Controller, type ControllerOptions } from './controller.ts'
export type {
  ControllerInput,
  InformerSource,
  InputOptions,
  MapContext,
  MappedNames,
  MapToNames,
  OwnsOptions,
} from './inputs.ts'
export {
  and,
  annotationsChanged,
  anyChange,
  changedBeyondStatus,
  type Filter,
  generationChanged,
  labelsChanged,
  matching,
  matchingLabels,
  not,
  or,
  type Predicate,
  type UpdatePredicate,
} from './predicates.ts'
export {
  type Finalize,
  type Reconcile,
  type ReconcileContext,
  type ReconcileResult,
  StaleCacheError,
  TerminalError,
} from './reconcile.ts'
export { type ReconcileReport, type ReconcileResults, resultsDefaults } from './results.ts'
export type { ControllerCounts } from './run-outcome.ts'
export { every, type Source, type SourceContext, type SourceItem, sourceDefaults } from './source.ts'
