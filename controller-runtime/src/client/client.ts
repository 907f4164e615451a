import { ApiError } from '../api/errors.ts'
import type { Model } from '../api/model.ts'
import type { ApiObject, NewObject, ObjectList } from '../api/object.ts'
import type { WatchEvent } from '../api/watch-event.ts'
import {
  apply,
  type CreateOrUpdateOptions,
  createOrUpdate,
  type DesiredObject,
  type WriteOutcome,
} from './create-or-update.ts'
import { decodeError, decodeEvent, decodeList, decodeObject } from './decode.ts'
import type { Mutate } from './draft.ts'
import { collectionPath, objectPath, statusPath, withQuery } from './paths.ts'
import type { Transport, TransportRequest, WatchEnd } from './transport.ts'

/** An object of type T as a client sends it for creation. */
export type NewObjectOf<T extends ApiObject> = NewObject<T['spec'], T['status']>

/**
 * An object of type T as a client sends it to replace the stored one. With `metadata.version` the write fails with
 * Conflict unless that is the current version; without it, the write is unconditional.
 */
export type ReplacementOf<T extends ApiObject> = NewObjectOf<T> & { metadata: { name: string } }

/** RFC 7396: sets the given fields, removes those that are `null`, replaces arrays as a whole. */
export type MergePatch<T> = unknown extends T
  ? unknown
  : T extends readonly unknown[]
    ? T
    : T extends object
      ? { [K in keyof T]?: MergePatch<T[K]> | null }
      : T

/** One step of RFC 6902. `path` and `from` are JSON Pointers. */
export type JsonPatchOperation =
  | { readonly op: 'add' | 'replace' | 'test'; readonly path: string; readonly value: unknown }
  | { readonly op: 'remove'; readonly path: string }
  | { readonly op: 'move' | 'copy'; readonly from: string; readonly path: string }

/** An array is a JSON Patch (RFC 6902), an object a merge patch (RFC 7396). */
export type Patch<T> = readonly JsonPatchOperation[] | MergePatch<T>

/** Options of every request. */
export interface RequestOptions {
  readonly signal?: AbortSignal
}

/** How fresh a read must be. */
export interface ReadOptions extends RequestOptions {
  /** `'0'`: any version from the server's cache, as in Kubernetes. Default: the most recent. */
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
  readonly resourceVersion?: string
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

/** Options of a patch. */
export interface PatchOptions extends WriteOptions {
  /** Fails with Conflict unless this is the current version. Merge patches only; in a JSON Patch use a `test` step. */
  readonly version?: string
}

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
  /** Sends every change after this version. Without it: ADDED for every object, then the BOOKMARK that ends the initial events. */
  readonly version?: string
  readonly timeoutSeconds?: number
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

/**
 * Typed access to the objects of any model. It keeps no cache: every read goes to the server.
 *
 * Errors: methods reject with an ApiError when the server refuses (check `reason`), with a TransportError when no
 * response arrives (a write may or may not have happened), and with the signal's reason when aborted.
 */
export interface Client {
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
  /** Replaces the object, except its status if the model has the status subresource. @throws ApiError Conflict, NotFound. */
  update<T extends ApiObject>(model: Model<T>, object: ReplacementOf<T>, options?: WriteOptions): Promise<T>
  /**
   * Changes parts of an object. If `target` is the object rather than its name, its uid is a precondition of a merge
   * patch: a newer object of the same name is left alone.
   */
  patch<T extends ApiObject>(
    model: Model<T>,
    target: string | T,
    patch: Patch<T>,
    options?: PatchOptions,
  ): Promise<T>
  /**
   * Replaces the status: through the status subresource if the model has one, else by replacing the object.
   * @throws ApiError Conflict if the object has changed since it was read.
   */
  updateStatus<T extends ApiObject>(model: Model<T>, object: T, options?: WriteOptions): Promise<T>
  /**
   * Merges into the status only, through the status subresource if the model has one. Unlike `updateStatus`, it does
   * not conflict with other writers. If `target` is the object, its uid is a precondition.
   */
  patchStatus<T extends ApiObject>(
    model: Model<T>,
    target: string | T,
    status: MergePatch<NonNullable<T['status']>>,
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
   * Sets the desired fields and keeps all others; creates the object if it does not exist. Objects are merged field by
   * field and arrays replaced, except that finalizers are added, and owner references are added or replaced by uid.
   *
   * This is not server-side apply: there is no field ownership. A field that is no longer desired keeps its value
   * (remove it with `createOrUpdate` or `patch`), and other writers' values are overwritten without a Conflict.
   * @throws as `createOrUpdate`.
   */
  apply<T extends ApiObject>(
    model: Model<T>,
    desired: DesiredObject<T>,
    options?: CreateOrUpdateOptions,
  ): Promise<WriteOutcome<T>>
  /**
   * Deletes an object, or marks it as deleting if it has finalizers. Returns its last state.
   * @throws ApiError NotFound, Conflict.
   */
  delete<T extends ApiObject>(model: Model<T>, name: string, options?: DeleteOptions): Promise<T>
  /**
   * Opens one raw watch, which ends with its connection. Use a Watcher or an Informer to survive disconnects.
   */
  watch<T extends ApiObject>(model: Model<T>, options?: WatchOptions): Promise<WatchStream<T>>
}

/** Headers that a client sends with every request. */
export interface ClientOptions {
  /** The plugin on whose behalf the client acts. The server enforces what plugins may not do. */
  readonly plugin?: string
  /** Lower-case names. */
  readonly headers?: Readonly<Record<string, string>>
}

/** Defaults of a client. */
export const clientDefaults = Object.freeze({
  /** Items per request of `items`; client-go's pager uses 500, about a megabyte. */
  pageSize: 500,
  /** The request header that names the plugin. */
  pluginHeader: 'x-setpoint-plugin',
})

/** Returns a client over the given transport. */
export function createClient(transport: Transport, options: ClientOptions = {}): Client {
  return new TransportClient(transport, options)
}

class TransportClient implements Client {
  readonly #transport: Transport
  readonly #headers: Readonly<Record<string, string>>

  constructor(transport: Transport, { plugin, headers }: ClientOptions) {
    this.#transport = transport
    this.#headers = Object.freeze({
      ...headers,
      ...(plugin !== undefined && { [clientDefaults.pluginHeader]: plugin }),
    })
  }

  async get<T extends ApiObject>(model: Model<T>, name: string, options: ReadOptions = {}): Promise<T> {
    const { resourceVersion, signal } = options
    const path = withQuery(objectPath(model, name), { resourceVersion })
    return decodeObject(model, await this.#send({ method: 'GET', path, signal }))
  }

  async getIfExists<T extends ApiObject>(
    model: Model<T>,
    name: string,
    options: ReadOptions = {},
  ): Promise<T | undefined> {
    try {
      return await this.get(model, name, options)
    } catch (error) {
      // A missing object is named in the details; for an unknown kind the details have no name.
      if (error instanceof ApiError && error.reason === 'NotFound' && error.details?.name === name) {
        return undefined
      }
      throw error
    }
  }

  async list<T extends ApiObject>(model: Model<T>, options: ListOptions = {}): Promise<ObjectList<T>> {
    const { signal, ...query } = options
    const path = withQuery(collectionPath(model), query)
    return decodeList(model, await this.#send({ method: 'GET', path, signal }))
  }

  async *items<T extends ApiObject>(model: Model<T>, options: ItemsOptions = {}): AsyncGenerator<T, void> {
    const { pageSize = clientDefaults.pageSize, ...rest } = options
    if (rest.sort !== undefined) {
      yield* this.#pages(model, pageSize, rest)
      return
    }
    let list = await this.list(model, { ...rest, limit: pageSize })
    for (;;) {
      yield* list.items
      const { continue: token } = list.metadata
      if (token === undefined || token === '') return
      list = await this.list(model, { ...rest, limit: pageSize, continue: token })
    }
  }

  async *#pages<T extends ApiObject>(
    model: Model<T>,
    size: number,
    options: ListOptions,
  ): AsyncGenerator<T, void> {
    let list = await this.list(model, { ...options, page: 1, size })
    const resourceVersion = list.metadata.version
    for (let page = 2; ; page++) {
      yield* list.items
      if (list.hasNext !== true) return
      list = await this.list(model, {
        ...options,
        page,
        size,
        resourceVersion,
        resourceVersionMatch: 'Exact',
      })
    }
  }

  async create<T extends ApiObject>(
    model: Model<T>,
    object: NewObjectOf<T>,
    options: WriteOptions = {},
  ): Promise<T> {
    return decodeObject(
      model,
      await this.#send({
        method: 'POST',
        path: withQuery(collectionPath(model), writeQuery(options)),
        body: { apiVersion: model.apiVersion, kind: model.kind, ...object },
        signal: options.signal,
      }),
    )
  }

  async update<T extends ApiObject>(
    model: Model<T>,
    object: ReplacementOf<T>,
    options: WriteOptions = {},
  ): Promise<T> {
    return this.#put(model, objectPath(model, object.metadata.name), object, options)
  }

  async updateStatus<T extends ApiObject>(
    model: Model<T>,
    object: T,
    options: WriteOptions = {},
  ): Promise<T> {
    return this.#put(model, statusPath(model, object.metadata.name), object, options)
  }

  async #put<T extends ApiObject>(
    model: Model<T>,
    path: string,
    object: object,
    options: WriteOptions,
  ): Promise<T> {
    return decodeObject(
      model,
      await this.#send({
        method: 'PUT',
        path: withQuery(path, writeQuery(options)),
        body: { apiVersion: model.apiVersion, kind: model.kind, ...object },
        signal: options.signal,
      }),
    )
  }

  async patch<T extends ApiObject>(
    model: Model<T>,
    target: string | T,
    patch: Patch<T>,
    options: PatchOptions = {},
  ): Promise<T> {
    return this.#patch(model, objectPath(model, nameOf(target)), target, patch, options)
  }

  async patchStatus<T extends ApiObject>(
    model: Model<T>,
    target: string | T,
    status: MergePatch<NonNullable<T['status']>>,
    options: PatchOptions = {},
  ): Promise<T> {
    return this.#patch(model, statusPath(model, nameOf(target)), target, { status }, options)
  }

  async #patch<T extends ApiObject>(
    model: Model<T>,
    path: string,
    target: string | ApiObject,
    patch: unknown,
    options: PatchOptions,
  ): Promise<T> {
    const json = Array.isArray(patch)
    return decodeObject(
      model,
      await this.#send({
        method: 'PATCH',
        path: withQuery(path, writeQuery(options)),
        contentType: json ? 'application/json-patch+json' : 'application/merge-patch+json',
        body: json ? patch : withPreconditions(patch, target, options.version),
        signal: options.signal,
      }),
    )
  }

  createOrUpdate<T extends ApiObject>(
    model: Model<T>,
    name: string,
    mutate: Mutate<T>,
    options?: CreateOrUpdateOptions,
  ): Promise<WriteOutcome<T>> {
    return createOrUpdate(this, model, name, mutate, options)
  }

  apply<T extends ApiObject>(
    model: Model<T>,
    desired: DesiredObject<T>,
    options?: CreateOrUpdateOptions,
  ): Promise<WriteOutcome<T>> {
    return apply(this, model, desired, options)
  }

  async delete<T extends ApiObject>(model: Model<T>, name: string, options: DeleteOptions = {}): Promise<T> {
    const { preconditions, propagationPolicy, dryRun, signal } = options
    const body = {
      kind: 'DeleteOptions',
      apiVersion: 'v1',
      ...(preconditions && { preconditions }),
      ...(propagationPolicy && { propagationPolicy }),
    }
    return decodeObject(
      model,
      await this.#send({
        method: 'DELETE',
        path: withQuery(objectPath(model, name), writeQuery({ dryRun })),
        ...((preconditions ?? propagationPolicy) && { body }),
        signal,
      }),
    )
  }

  async watch<T extends ApiObject>(model: Model<T>, options: WatchOptions = {}): Promise<WatchStream<T>> {
    const { name, signal = new AbortController().signal, ...query } = options
    const path = name === undefined ? collectionPath(model) : objectPath(model, name)
    const connection = await this.#transport.watch(withQuery(path, query), { signal, headers: this.#headers })
    return {
      end: connection.end,
      close: () => connection.close(),
      async *[Symbol.asyncIterator]() {
        for await (const text of connection) yield decodeEvent(model, text)
      },
    }
  }

  /** Returns the body of a 2xx response. */
  async #send(request: {
    method: TransportRequest['method']
    path: string
    signal: AbortSignal | undefined
    contentType?: string
    body?: unknown
  }): Promise<string> {
    const { method, path, signal, body, contentType = 'application/json' } = request
    const response = await this.#transport.request({
      method,
      path,
      headers: {
        ...this.#headers,
        accept: 'application/json',
        ...(body !== undefined && { 'content-type': contentType }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      ...(signal && { signal }),
    })
    if (response.status < 200 || response.status > 299) throw decodeError(response)
    return response.body
  }
}

function nameOf(target: string | ApiObject): string {
  return typeof target === 'string' ? target : target.metadata.name
}

function writeQuery({ dryRun, fieldValidation }: WriteOptions): Record<string, string | undefined> {
  return { dryRun: dryRun === true ? 'All' : undefined, fieldValidation }
}

/** Adds uid and version to a merge patch; the server treats them as preconditions. */
function withPreconditions(patch: unknown, target: string | ApiObject, version: string | undefined): unknown {
  const uid = typeof target === 'string' ? undefined : target.metadata.uid
  if ((uid === undefined && version === undefined) || typeof patch !== 'object' || patch === null)
    return patch
  const metadata: unknown = 'metadata' in patch ? patch.metadata : undefined
  return {
    ...patch,
    metadata: {
      ...(typeof metadata === 'object' && metadata),
      ...(uid !== undefined && { uid }),
      ...(version !== undefined && { version }),
    },
  }
}
