import type { ApiError, ObjectKey, PropagationPolicy, UserInfo } from '@setpoint/controller-runtime/api'
import type { DuplicateField, ServedVersion } from '../model/index.ts'
import type { SubresourceForm } from './subresource-form.ts'

/** What the caller of a write may do with other objects of the kind, or beyond the verb of the request. */
export interface CallerRights {
  /** Checks an apply that creates its object. @throws ApiError 403 */
  checkCreation(key: ObjectKey): void
  /** Returns true if an error message may name an object. */
  mayRead(key: ObjectKey): boolean
}

/** What is told about a write beside its result, also if it fails. */
export interface WriteNotes {
  /** Adds a `Warning` header to the response. */
  warn(text: string): void
  /** Adds an annotation to the audit event. */
  annotate(key: string, value: string): void
}

/** The options of a write request. */
export interface WriteOptions {
  /** Does everything but store. */
  readonly dryRun: boolean
  /** Treatment of fields that the schema does not know, and of `duplicates`. */
  readonly fieldValidation: 'Strict' | 'Warn' | 'Ignore'
  /** Fields that the body of the request has more than once. */
  readonly duplicates?: readonly DuplicateField[]
  /** The plugin that writes. Plugins obey stricter rules. */
  readonly plugin: string | undefined
  /** Passed to the model's hooks. Default: the server itself. */
  readonly user?: UserInfo
  /** Default: everything. */
  readonly rights?: CallerRights
  /** True if the server itself writes. Only the server changes its own annotations. */
  readonly isService?: boolean
  /**
   * True for an object that the server itself declares, and that a test checks against its schema. The first start of a
   * server then compiles no schema.
   */
  readonly isDeclared?: boolean
  /** If set, the write may only remove finalizers or delete the object. Any other change throws this error. */
  readonly onlyLettingGo?: ApiError
  /**
   * True if the nulls that Kubernetes drops are removed from the object. Default: for built-in kinds and those of
   * definitions.
   */
  readonly dropsNulls?: boolean
  /** Returns the name of the writer, as the owner of the fields that it changes. Default: the plugin. */
  readonly manager?: () => string | undefined
  /** The version of the request and of its response. Default: the hub. */
  readonly version?: ServedVersion
  /** The namespace of a new object, if its kind is namespaced. */
  readonly namespace?: string
  /**
   * Returns the options of the request as the client has sent them: the fields of Kubernetes' CreateOptions and the
   * like.
   */
  readonly sentOptions?: () => Readonly<Record<string, unknown>>
  /** Set for a write through a subresource with objects of its own kind: an admission sees those. */
  readonly form?: SubresourceForm
  /** Gets what an admission tells. Default: nobody is told. */
  readonly notes?: WriteNotes
  /** True for a deletion that is part of the deletion of a collection. */
  readonly isOfCollection?: boolean
  readonly signal?: AbortSignal
  /** Gets the milliseconds that the write waits for the store. */
  readonly times?: { storeMs: number }
  /**
   * Returns a signal that is aborted when the caller has left. It is called by writes that have to wait for others;
   * most writes need not pay for a signal.
   */
  readonly whenGone?: () => AbortSignal | undefined
}

/** The server itself, as hooks, roles and the audit log see it. */
export const serverUser: UserInfo = Object.freeze({
  name: 'setpoint:server',
  groups: Object.freeze(['setpoint:admins']),
})

export const defaultWriteOptions: WriteOptions = Object.freeze({
  dryRun: false,
  fieldValidation: 'Ignore',
  plugin: undefined,
})

export const serviceWriteOptions: WriteOptions = Object.freeze({ ...defaultWriteOptions, isService: true })

/** The options for creating an object that the server declares. */
export const declaredWriteOptions: WriteOptions = Object.freeze({ ...serviceWriteOptions, isDeclared: true })

/** The result of a write. */
export interface WriteResult {
  readonly key: ObjectKey
  /** The object's wire JSON. */
  readonly bytes: Buffer
  /** Texts of `Warning` headers. */
  readonly warnings: readonly string[]
  /** True if an apply has created the object. */
  readonly isCreated?: true
  /** True if the write has removed the object. */
  readonly isRemoved?: true
}

/** Returns a result with warnings before its own. */
export function withWarnings(result: WriteResult, warnings: readonly string[]): WriteResult {
  return warnings.length === 0 ? result : { ...result, warnings: [...warnings, ...result.warnings] }
}

/** Conditions on the current object of a request. */
export interface Preconditions {
  readonly uid?: string
  readonly versions?: readonly string[]
  /** The fields of the request with a version, for the message of a conflict. */
  readonly versionFields?: readonly string[]
}

export interface Deletion extends Preconditions {
  /** Treatment of dependents. Without it the object's own finalizers decide. */
  readonly propagation?: PropagationPolicy
}
