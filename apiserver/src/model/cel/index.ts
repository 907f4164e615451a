/**
 * The Common Expression Language, as Kubernetes uses it for validation rules.
 *
 * - An expression that uses an unknown name, or a value of the wrong type, does not compile.
 * - An evaluation counts its steps and ends at a bound, however large the values are.
 * - `docs/reference/rules.md` lists the functions.
 */
export {
  type AccessAnswer,
  type AccessQuestion,
  type AskAccess,
  Authorizer,
  type CheckedResource,
} from './authorization.ts'
export { Budget, BudgetExceededError, celLimits } from './budget.ts'
export { compileCel, type Program } from './compile.ts'
export { CelCompileError, CelEvaluationError } from './errors.ts'
export { celName } from './field-name.ts'
export { Duration, Timestamp } from './time.ts'
export { bool, type CelType, dyn, isCompatible, listOf, nameOf } from './types.ts'
export { type CelValue, isMap, markDistinct, Optional } from './values.ts'
