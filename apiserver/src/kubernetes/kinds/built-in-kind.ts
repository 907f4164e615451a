import type { Model } from '@setpoint/controller-runtime/api'
import type { KindRules } from '../../model/index.ts'

/** The declaration of a built-in kind. */
export interface BuiltInKind {
  readonly model: Model
  /** May be empty. */
  readonly rules: KindRules
}
