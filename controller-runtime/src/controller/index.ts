/**
 * What brings the world in line with objects: a `ControllerBuilder` says what to do, a `Controller` does it for one
 * object at a time, again after failures, never on a state older than its own last write, and with a finalizer that
 * stays until clean-up has succeeded.
 */
export { ControllerBuilder, type ControllerDefinition, controllerDefaults } from './builder.ts'
export { Controller, type ControllerCounts, type ControllerOptions } from './controller.ts'
export { anyChange, changedBeyondStatus, type UpdatePredicate } from './predicates.ts'
export {
  type Finalize,
  type Reconcile,
  type ReconcileContext,
  type ReconcileResult,
  TerminalError,
} from './reconcile.ts'
