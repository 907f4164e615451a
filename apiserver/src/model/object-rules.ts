import type { Violation } from './violation.ts'

/** An object. A schema describes its fields, except for apiVersion, kind and metadata. */
export interface SchemaSubject {
  spec?: unknown
  status?: unknown
  [field: string]: unknown
}

/** The violations of a kind's rules. */
export interface RuleViolations {
  /** Of rules about the object alone. */
  readonly state: Violation[]
  /** Of rules about the change, which use `oldSelf`. */
  readonly transitions: Violation[]
}

/** The compiled rules of a kind. */
export interface ObjectRules {
  /** Returns the violations. Rules that use `oldSelf` need the previous object, or an optional of it. */
  validate(object: Readonly<SchemaSubject>, previous: Readonly<SchemaSubject> | undefined): RuleViolations
  /**
   * Returns the violations of the rules about the object alone. `isComplete` is false if the rules take more than
   * `steps` steps; the rest is then not evaluated.
   */
  validateState(
    object: Readonly<SchemaSubject>,
    steps: number,
  ): { readonly state: readonly Violation[]; readonly isComplete: boolean }
}
