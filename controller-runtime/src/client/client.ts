import type { Action, ActionInput, ActionOutput } from '../api/action.ts'
import type { DeepReadonly } from '../api/deep-readonly.ts'
import type { UserInfo } from '../api/hooks.ts'
import type { Model } from '../api/model.ts'
import type { ApiObject, ObjectList, StatusInput } from '../api/object.ts'
import type { Schema } from '../api/schema.ts'
import type { WatchEvent } from '../api/watch-event.ts'
import type { DesiredObject, DesiredStatus, MergePatch, NewObjectOf, Patch, ReplacementOf } from './bodies.ts'
import type { ConflictRetryOptions } from './conflict-retry.ts'
import type { Mutate } from './draft.ts'
import type { WatchEnd } from './transport.ts'

/** Options of every request. */
export interface RequestOptions {
  readonly signal?: AbortSignal
}

/** How fresh a read must be. */
export interface ReadOptions extends RequestOptions {
  /**
   * A state at least as new as this version; `'0'`: any state in the server's cache, as in Kubernetes. Default: the
   * latest.
   */
  readonly resourceVersion?: string
}

/** Label and field selectors of a list or watch. */
export interface SelectorOptions {
  /** Several are joined by AND. */
  readonly labelSelector?: string | readonly string[]
  /** Over the model's indexes; several are joined by AND. Values are escaped by `escapeSelectorValue`. */
  readonly fieldSelector?: string | readonly string[]
}

/** Selection, order and paging of a list. */
export interface ListOptions extends RequestOptions, SelectorOptions {
  /** `<field>`, `<field>,asc` or `<field>,desc`; further entries are further sort keys. */
  readonly sort?: string | readonly string[]
  /** Page number, from 1. */
  readonly page?: number
  /** Items per page, from 1. Default: all. */
  readonly size?: number
  /** Items per chunk, in name order. Not with page, size or sort. */
  readonly limit?: number
  /** Token from the previous chunk's `metadata.continue`. */
  readonly continue?: string
  /** As in `ReadOptions`. */
  readonly resourceVersion?: string
  /** `Exact`: the state at `resourceVersion`; ApiError Expired if it is not kept. */
  readonly resourceVersionMatch?: 'Exact' | 'NotOlderThan'
}

/** Selection and order of `Client.items`. */
export interface ItemsOptions extends RequestOptions, SelectorOptions {
  /** As in `ListOptions`. Default: by name. */
  readonly sort?: string | readonly string[]
  /** Items per request. Default `clientDefaults.pageSize`. */
  readonly pageSize?: number
}

/** How a write is validated and stored. */
export interface WriteOptions extends RequestOptions {
  /** Validates and returns the result without storing it. */
  readonly dryRun?: boolean
  /** How the server treats fields unknown to the schema. Its default is `Warn`. */
  readonly fieldValidation?: 'Strict' | 'Warn' | 'Ignore'
}

export interface PatchOptions extends WriteOptions {
  /** Fails with Conflict unless this is the current version. Merge patches only; in a JSON Patch use a `test` step. */
  readonly version?: string
}

export interface ApplyOptions extends WriteOptions {
  /** The name of the fields' owner. Default: the controller's name, else the client's. */
  readonly fieldManager?: string
  /** Takes fields from other managers instead of failing with Conflict. */
  readonly force?: boolean
}

/** How `createOrUpdate` writes. */
export interface CreateOrUpdateOptions extends WriteOptions, ConflictRetryOptions {}

/** Preconditions of a deletion, and what happens to the dependents. */
export interface DeleteOptions extends RequestOptions {
  /** Fails with Conflict unless uid and version match. */
  readonly preconditions?: { readonly uid?: string; readonly version?: string }
  readonly propagationPolicy?: 'Background' | 'Foreground' | 'Orphan'
  readonly dryRun?: boolean
}

/** What a raw watch selects, and where it starts. */
export interface WatchOptions extends RequestOptions, SelectorOptions {
  /** Watches one object, which need not exist yet. */
  readonly name?: string
  /**
   * Sends every change after this version. Without it: ADDED for every object, then the BOOKMARK that ends the initial
   * events.
   */
  readonly version?: string
  readonly timeoutSeconds?: number
}

/** The result of a write, and the object as stored. */
export interface WriteOutcome<T extends ApiObject = ApiObject> {
  readonly object: T
  /** `unchanged`: no write was needed. */
  readonly result: 'created' | 'updated' | 'unchanged'
}

/**
 * One open watch. The iteration yields events in order and returns when the watch closes; `end` then holds the close
 * code. Leaving the iteration closes the watch. An undecodable frame makes the iteration throw MalformedEventError.
 */
export interface WatchStream<T = ApiObject> extends AsyncIterable<WatchEvent<T>> {
  /** Resolves when the watch has closed; never rejects. */
  readonly end: Promise<WatchEnd>
  close(): void
}

/** The input of an action, which may be left out if no field is required, and the options of the request. */
export type ActionArguments<I extends Schema> =
  Record<never, never> extends ActionInput<I>
    ? [input?: ActionInput<I>, options?: RequestOptions]
    : [input: ActionInput<I>, options?: RequestOptions]

/**
 * Typed access to the objects of any model. It keeps no cache: every read goes to the server.
 *
 * Errors: methods reject with an ApiError when the server refuses (check `reason`), with a TransportError when no
 * response arrives (a write may or may not have happened), and with the signal's reason when aborted.
 */
export interface Client {
  /**
   * Returns a client for the objects in a namespace: it finds them by name, and lists and watches only them. Kinds that
   * are not namespaced are not affected. A client without a namespace lists and watches all of them, and takes the
   * namespace of an object from its metadata, or from a key `<namespace>/<name>` in place of the name.
   */
  inNamespace(namespace: string): Client
  /**
   * Returns a client that acts for the caller of a route: it may do what the caller may, and nothing else. `user` is
   * the `user` of the request. When the handler's response has been sent, requests reject with ApiError Forbidden.
   */
  as(user: UserInfo): Client
  /** @throws ApiError NotFound if the object does not exist. */
  get<T extends ApiObject>(model: Model<T>, name: string, options?: ReadOptions): Promise<T>
  /** Returns undefined if the object does not exist. Rejects if the server does not serve the kind. */
  getIfExists<T extends ApiObject>(
    model: Model<T>,
    name: string,
    options?: ReadOptions,
  ): Promise<T | undefined>
  list<T extends ApiObject>(model: Model<T>, options?: ListOptions): Promise<ObjectList<T>>
  /**
   * Iterates over all matching objects as of one version, fetching `pageSize` at a time.
   * @throws ApiError Expired during the iteration if the server no longer keeps that version: start again.
   */
  items<T extends ApiObject>(model: Model<T>, options?: ItemsOptions): AsyncIterable<T>
  /** @throws ApiError AlreadyExists, Invalid. */
  create<T extends ApiObject>(model: Model<T>, object: NewObjectOf<T>, options?: WriteOptions): Promise<T>
  /**
   * Replaces the object, except its status if the model has the status subresource. @throws ApiError Conflict,
   * NotFound.
   */
  update<T extends ApiObject>(model: Model<T>, object: ReplacementOf<T>, options?: WriteOptions): Promise<T>
  /**
   * Changes parts of an object. If `target` is the object rather than its name, its uid is a precondition of a merge
   * patch: a newer object of the same name is left alone.
   * @throws TypeError for a status that the server would ignore, because it is a subresource: use `patchStatus`.
   */
  patch<T extends ApiObject>(
    model: Model<T>,
    target: string | DeepReadonly<T>,
    patch: Patch<T>,
    options?: PatchOptions,
  ): Promise<T>
  /**
   * Replaces the status: through the status subresource if the model has one, else by replacing the object.
   * @throws ApiError Conflict if the object has changed since it was read.
   */
  updateStatus<T extends ApiObject>(
    model: Model<T>,
    object: DeepReadonly<T>,
    options?: WriteOptions,
  ): Promise<T>
  /**
   * Merges into the status only, through the status subresource if the model has one. Unlike `updateStatus`, it does
   * not conflict with other writers. If `target` is the object, its uid is a precondition.
   */
  patchStatus<T extends ApiObject>(
    model: Model<T>,
    target: string | DeepReadonly<T>,
    status: MergePatch<NonNullable<StatusInput<T>>>,
    options?: PatchOptions,
  ): Promise<T>
  /**
   * Creates or replaces an object, as controller-runtime's `CreateOrUpdate`: reads it, calls `mutate` with a draft, and
   * writes the draft, or the object that `mutate` returns. Writes nothing if nothing has changed. If another writer
   * interferes, it starts over and calls `mutate` again. It never writes the status.
   * @throws ApiError as `create` and `update` do; Conflict after the last attempt; AlreadyExists if the value of a
   * unique index is taken. TypeError if `mutate` changes the name or returns something other than an object.
   */
  createOrUpdate<T extends ApiObject>(
    model: Model<T>,
    name: string,
    mutate: Mutate<T>,
    options?: CreateOrUpdateOptions,
  ): Promise<WriteOutcome<T>>
  /**
   * Sets the desired fields and keeps all others (server-side apply); creates the object if it does not exist. The
   * manager owns the fields from then on: those that a later apply of it leaves out are removed, unless another manager
   * owns them too. Maps are merged field by field, lists as the schema says.
   * @throws ApiError Conflict with a cause `FieldManagerConflict` for each field that another manager has with another
   * value, unless `force` is given.
   */
  apply<T extends ApiObject>(model: Model<T>, desired: DesiredObject<T>, options?: ApplyOptions): Promise<T>
  /**
   * Does the same for the status, through the status subresource. The object must exist.
   * @throws TypeError if the model does not have the subresource.
   */
  applyStatus<T extends ApiObject>(
    model: Model<T>,
    desired: DesiredStatus<T>,
    options?: ApplyOptions,
  ): Promise<T>
  /**
   * Deletes an object, or marks it as deleting if it has finalizers. Returns its last state, or undefined for a removed
   * object of a built-in kind, and for a sensitive kind, whose objects are only shown to those who may read them.
   * @throws ApiError NotFound, Conflict.
   */
  delete<T extends ApiObject>(model: Model<T>, name: string, options?: DeleteOptions): Promise<T | undefined>
  /**
   * Runs an action on an object, and returns its result. The action may have run although no response arrives.
   * @throws ApiError NotFound; Conflict if the object is being deleted; Invalid if the input is; as the action
   */
  action<T extends ApiObject, I extends Schema, O extends Schema | undefined>(
    action: Action<T, I, O>,
    target: string | DeepReadonly<NoInfer<T>>,
    ...given: ActionArguments<I>
  ): Promise<ActionOutput<O>>
  /**
   * Opens one raw watch, which ends with its connection. Use a Watcher or an Informer to survive disconnects.
   */
  watch<T extends ApiObject>(model: Model<T>, options?: WatchOptions): Promise<WatchStream<T>>
}
