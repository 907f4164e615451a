/**
 * What brings the world in line with objects: a `ControllerBuilder` says what to do, a `Controller` does it for one
 * object at a time, again after failures, never on a state older than its own last write, and with a finalizer that
 * stays until clean-up has succeeded.
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
export type { ControllerCounts } from './settlement.ts'
export { every, type Source, type SourceContext, type SourceItem, sourceDefaults } from './source.ts'
