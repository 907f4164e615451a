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
 * An object of type T as a client sends it to replace the stored one. With `metadata.version` (as every object
 * has that was read) the write fails with Conflict unless that is the current one; without, it is unconditional.
 */
export type ReplacementOf<T extends ApiObject> = NewObjectOf<T> & { metadata: { name: string } }

/** RFC 7396: what is named is set, `null` removes, arrays are replaced as a whole. */
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

/** What every request takes. */
export interface RequestOptions {
  readonly signal?: AbortSignal
}

/** How new an answer has to be. */
export interface ReadOptions extends RequestOptions {
  /** `'0'`: whatever the server has at hand, without asking the store whether that is the newest. */
  readonly resourceVersion?: string
}

/** Which objects are meant. */
export interface SelectorOptions {
  /** Several are joined by AND. */
  readonly labelSelector?: string | readonly string[]
  /** Over the model's indexes; several are joined by AND. Values are escaped by `escapeSelectorValue`. */
  readonly fieldSelector?: string | readonly string[]
}

/** Which objects a list answers: selected, sorted, and by pages or by parts. */
export interface ListOptions extends RequestOptions, SelectorOptions {
  /** `<field>`, `<field>,asc` or `<field>,desc`; several are further keys. */
  readonly sort?: string | readonly string[]
  /** From 1. */
  readonly page?: number
  /** Items a page, from 1. Without it: all. */
  readonly size?: number
  /** Items of one part of a snapshot, in name order; not with page, size or sort. */
  readonly limit?: number
  /** From the previous part's `metadata.continue`. */
  readonly continue?: string
  readonly resourceVersion?: string
  readonly resourceVersionMatch?: 'Exact' | 'NotOlderThan'
}

/** Which objects `Client.items` goes through, and in which order. */
export interface ItemsOptions extends RequestOptions, SelectorOptions {
  /** As in `ListOptions`; without it the order is by name. */
  readonly sort?: string | readonly string[]
  /** Items fetched at once; default `clientDefaults.pageSize`. */
  readonly pageSize?: number
}

/** How a write is checked and stored. */
export interface WriteOptions extends RequestOptions {
  /** Do everything but store. */
  readonly dryRun?: boolean
  /** What to do about fields that the schema does not know; the server's default is `Warn`. */
  readonly fieldValidation?: 'Strict' | 'Warn' | 'Ignore'
}

/** How a patch is written. */
export interface PatchOptions extends WriteOptions {
  /** Fails with Conflict unless this is the current version. For merge patches; a JSON Patch carries its own `test`. */
  readonly version?: string
}

/** On which conditions an object is deleted, and what becomes of its dependents. */
export interface DeleteOptions extends RequestOptions {
  /** Fail with Conflict unless these hold. */
  readonly preconditions?: { readonly uid?: string; readonly version?: string }
  readonly propagationPolicy?: 'Background' | 'Foreground' | 'Orphan'
  readonly dryRun?: boolean
}

/** What a raw watch is told, and from where on. */
export interface WatchOptions extends RequestOptions, SelectorOptions {
  /** Watch one object, which need not exist yet. */
  readonly name?: string
  /** Every change after it. Without: first ADDED for everything, then a BOOKMARK that ends the initial events. */
  readonly version?: string
  readonly timeoutSeconds?: number
}

/**
 * One open watch: the iteration yields the events in order and returns when the watch has ended; `end` then says how.
 * Leaving the iteration closes the watch. A frame that is no event ends the iteration with a MalformedEventError.
 */
export interface WatchStream<T = ApiObject> extends AsyncIterable<WatchEvent<T>> {
  /** Settled when the watch has ended; never rejects. */
  readonly end: Promise<WatchEnd>
  close(): void
}

/**
 * Typed access to the objects of any model. It keeps no cache: every read is answered by the server.
 *
 * Errors: every method rejects with an ApiError when the server refused (tell cases apart by `reason`), with a
 * TransportError when no answer came (a write may then have happened, or not), and with the signal's reason when
 * it was aborted.
 */
export interface Client {
  /** @throws ApiError NotFound when there is none. */
  get<T extends ApiObject>(model: Model<T>, name: string, options?: ReadOptions): Promise<T>
  /** Undefined when there is none. A kind that the server does not serve is still an error. */
  getIfExists<T extends ApiObject>(
    model: Model<T>,
    name: string,
    options?: ReadOptions,
  ): Promise<T | undefined>
  list<T extends ApiObject>(model: Model<T>, options?: ListOptions): Promise<ObjectList<T>>
  /**
   * Every object that matches, from one state of the store, fetched in parts while being iterated.
   * @throws ApiError Expired in the middle when that state is no longer kept (after minutes): begin anew.
   */
  items<T extends ApiObject>(model: Model<T>, options?: ItemsOptions): AsyncIterable<T>
  /** @throws ApiError AlreadyExists, Invalid. */
  create<T extends ApiObject>(model: Model<T>, object: NewObjectOf<T>, options?: WriteOptions): Promise<T>
  /** Replaces the whole object (not its status, where the model has the status subresource). @throws ApiError Conflict, NotFound. */
  update<T extends ApiObject>(model: Model<T>, object: ReplacementOf<T>, options?: WriteOptions): Promise<T>
  /**
   * Changes parts of an object. Given the object rather than its name, a merge patch does not touch a later object
   * of that name: its uid is a precondition.
   */
  patch<T extends ApiObject>(
    model: Model<T>,
    target: string | T,
    patch: Patch<T>,
    options?: PatchOptions,
  ): Promise<T>
  /**
   * Replaces the status, through the status subresource where the model has one, else by replacing the object.
   * @throws ApiError Conflict when the object has changed since it was read.
   */
  updateStatus<T extends ApiObject>(model: Model<T>, object: T, options?: WriteOptions): Promise<T>
  /**
   * Merges into the status and into nothing else, through the status subresource where the model has one. Unlike
   * `updateStatus` it does not conflict with others' changes. Given the object, its uid is a precondition.
   */
  patchStatus<T extends ApiObject>(
    model: Model<T>,
    target: string | T,
    status: MergePatch<NonNullable<T['status']>>,
    options?: PatchOptions,
  ): Promise<T>
  /**
   * Makes an object what `mutate` makes of it: reads it, has the draft changed or another object answered in its
   * place, and creates or replaces it; where nothing has changed, nothing is written. When another writer comes between,
   * everything begins anew, `mutate` included. The status is not written. An object that is being deleted is changed like any other.
   * @throws ApiError Invalid and so on, as `create` and `update`; Conflict only after every attempt was overtaken;
   * AlreadyExists only for a value of a unique index. TypeError where `mutate` changes the name, or answers what is no
   * object.
   */
  createOrUpdate<T extends ApiObject>(
    model: Model<T>,
    name: string,
    mutate: Mutate<T>,
    options?: CreateOrUpdateOptions,
  ): Promise<WriteOutcome<T>>
  /**
   * Makes an object have at least what is desired: the given fields are set, every other is left, and it is created
   * where there is none. Objects are merged field by field; arrays are replaced whole, but finalizers are added to those
   * that are there, and owner references to those of other uids.
   *
   * It is no server-side apply: nobody records who set what. A field that is desired no longer stays as it is (take it
   * away with `createOrUpdate` or `patch`), and fields that another writer set are overwritten without a Conflict.
   * @throws as `createOrUpdate`.
   */
  apply<T extends ApiObject>(
    model: Model<T>,
    desired: DesiredObject<T>,
    options?: CreateOrUpdateOptions,
  ): Promise<WriteOutcome<T>>
  /**
   * Deletes, or, where the object has finalizers, marks as deleting. Answers the object as it was left.
   * @throws ApiError NotFound, Conflict.
   */
  delete<T extends ApiObject>(model: Model<T>, name: string, options?: DeleteOptions): Promise<T>
  /**
   * Opens one raw watch, which ends when its connection does. For a view that outlives connections use a Watcher or
   * an Informer.
   */
  watch<T extends ApiObject>(model: Model<T>, options?: WatchOptions): Promise<WatchStream<T>>
}

/** What every request of a client says of its caller. */
export interface ClientOptions {
  /** The plugin on whose behalf the client acts; the server then refuses what plugins may not do. */
  readonly plugin?: string
  /** Sent with every request; lower-case names. */
  readonly headers?: Readonly<Record<string, string>>
}

/** Numbers and names that clients work with. */
export const clientDefaults = Object.freeze({
  /** Items fetched at once by `items`: client-go's pager uses 500, a megabyte of ordinary objects. */
  pageSize: 500,
  /** The request header that names the plugin. */
  pluginHeader: 'x-setpoint-plugin',
})

/** A client over any transport. */
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
      // A missing object is named in the details, a kind that is not served is not.
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

  /** The body of a success, as text. */
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

/** The server takes `metadata.uid` and `metadata.version` of a merge patch as preconditions. */
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
