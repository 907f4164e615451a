import type { ApiError, PropagationPolicy } from '@setpoint/controller-runtime/api'

/** What a request says about how to write. */
export interface WriteOptions {
  /** Do everything but store. */
  readonly dryRun: boolean
  /** What becomes of fields that the schema does not know. */
  readonly fieldValidation: 'Strict' | 'Warn' | 'Ignore'
  /** The plugin that writes, for whom stricter rules hold. */
  readonly plugin: string | undefined
  /** Whether the service itself writes, which alone changes what it has noted on an object. */
  readonly isService?: boolean
  /**
   * Why this write may do nothing to an object but take finalizers away, or delete it: thrown where it does more. Absent
   * where it may do anything.
   */
  readonly onlyLettingGo?: ApiError
  readonly signal?: AbortSignal
}

export const defaultWriteOptions: WriteOptions = Object.freeze({
  dryRun: false,
  fieldValidation: 'Ignore',
  plugin: undefined,
})

export const serviceWriteOptions: WriteOptions = Object.freeze({ ...defaultWriteOptions, isService: true })

/** What a write answers. */
export interface WriteResult {
  readonly name: string
  /** The object's wire JSON. */
  readonly bytes: Buffer
  /** Sentences for `Warning` headers. */
  readonly warnings: readonly string[]
}

/** Conditions on the object that a request acts on. */
export interface Preconditions {
  readonly uid?: string
  readonly versions?: readonly string[]
}

/** How an object is to be deleted. */
export interface Deletion extends Preconditions {
  /** What becomes of its dependents; where it is absent, what the object's own finalizers say. */
  readonly propagation?: PropagationPolicy
}
