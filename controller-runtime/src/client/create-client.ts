import type { Action, ActionOutput } from '../api/action.ts'
import type { DeepReadonly } from '../api/deep-readonly.ts'
import { isNotFound } from '../api/errors.ts'
import type { UserInfo } from '../api/hooks.ts'
import { isRecord } from '../api/is-record.ts'
import type { Model } from '../api/model.ts'
import type { ApiObject, ObjectList, StatusInput } from '../api/object.ts'
import type { Schema } from '../api/schema.ts'
import type { DesiredObject, DesiredStatus, MergePatch, NewObjectOf, Patch, ReplacementOf } from './bodies.ts'
import type {
  ActionArguments,
  ApplyOptions,
  Client,
  CreateOrUpdateOptions,
  DeleteOptions,
  ItemsOptions,
  ListOptions,
  PatchOptions,
  ReadOptions,
  RequestOptions,
  WatchOptions,
  WatchStream,
  WriteOptions,
  WriteOutcome,
} from './client.ts'
import { createOrUpdate } from './create-or-update.ts'
import {
  decodeDeleted,
  decodeError,
  decodeEvent,
  decodeList,
  decodeObject,
  decodeResult,
  decodeWarnings,
} from './decode.ts'
import type { Mutate } from './draft.ts'
import { checkOptions, checkPreconditions } from './option-keys.ts'
import {
  actionPath,
  collectionPath,
  creationPath,
  objectPath,
  partsOfKey,
  qualifiedKey,
  statusPath,
  targetKey,
  withQuery,
} from './paths.ts'
import type { Transport, TransportRequest } from './transport.ts'

/** Headers that a client sends with every request. */
export interface ClientOptions {
  /** The plugin that the client acts for. The server enforces what plugins may not do. */
  readonly plugin?: string
  /** Lower-case names. */
  readonly headers?: Readonly<Record<string, string>>
  /** The manager of applies that name none. Default: the plugin, else `clientDefaults.fieldManager`. */
  readonly fieldManager?: string
  /**
   * Called with each warning that the server adds to a response: fields that the schema does not have, a deprecated
   * version. Watches carry none. Default: nobody is told.
   */
  readonly onWarning?: (warning: string, request: Pick<TransportRequest, 'method' | 'path'>) => void
}

export const clientDefaults = Object.freeze({
  /** Items per request of `items`; client-go's pager uses 500, about a megabyte. */
  pageSize: 500,
  /** The request header that names the plugin. */
  pluginHeader: 'x-setpoint-plugin',
  /** The manager of applies of a client without a name. */
  fieldManager: 'setpoint-client',
})

/** Returns a client over the given transport. @throws TypeError for anything else */
export function createClient(transport: Transport, options: ClientOptions = {}): Client {
  if (typeof transport?.request !== 'function')
    throw new TypeError('createClient needs a transport, such as new HttpTransport({ server })')
  return new TransportClient(transport, options)
}

class TransportClient implements Client {
  readonly #transport: Transport
  readonly #options: ClientOptions
  readonly #user: UserInfo | undefined
  readonly #namespace: string | undefined
  readonly #headers: Readonly<Record<string, string>>
  readonly #fieldManager: string

  constructor(transport: Transport, options: ClientOptions, namespace?: string, user?: UserInfo) {
    const { plugin, headers, fieldManager } = options
    this.#transport = transport
    this.#options = options
    this.#namespace = namespace
    this.#user = user
    this.#fieldManager = fieldManager ?? plugin ?? clientDefaults.fieldManager
    this.#headers = Object.freeze({
      ...headers,
      ...(plugin !== undefined && { [clientDefaults.pluginHeader]: plugin }),
    })
  }

  inNamespace(namespace: string): Client {
    if (typeof namespace !== 'string' || namespace === '')
      throw new TypeError('the namespace must not be empty')
    return new TransportClient(this.#transport, this.#options, namespace, this.#user)
  }

  as(user: UserInfo): Client {
    return new TransportClient(this.#transport, this.#options, this.#namespace, user)
  }

  async get<T extends ApiObject>(model: Model<T>, name: string, options: ReadOptions = {}): Promise<T> {
    checkOptions('get', options)
    const { resourceVersion, signal } = options
    const path = withQuery(objectPath(model, name, this.#namespace), { resourceVersion })
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
      if (isNotFound(error) && error.details?.name === partsOfKey(model, name).name) return undefined
      throw error
    }
  }

  async list<T extends ApiObject>(model: Model<T>, options: ListOptions = {}): Promise<ObjectList<T>> {
    checkOptions('list', options)
    const { signal, ...query } = options
    const path = withQuery(collectionPath(model, this.#namespace), query)
    return decodeList(model, await this.#send({ method: 'GET', path, signal }))
  }

  async *items<T extends ApiObject>(model: Model<T>, options: ItemsOptions = {}): AsyncGenerator<T, void> {
    checkOptions('items', options)
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
    checkOptions('create', options)
    const path = creationPath(model, object.metadata.namespace ?? this.#namespace)
    return this.#write(model, options, { method: 'POST', path, body: withKind(model, object) })
  }

  async update<T extends ApiObject>(
    model: Model<T>,
    object: ReplacementOf<T>,
    options: WriteOptions = {},
  ): Promise<T> {
    return this.#put(model, objectPath(model, targetKey(model, object), this.#namespace), object, options)
  }

  async updateStatus<T extends ApiObject>(
    model: Model<T>,
    object: DeepReadonly<T>,
    options: WriteOptions = {},
  ): Promise<T> {
    return this.#put(model, statusPath(model, targetKey(model, object), this.#namespace), object, options)
  }

  async #put<T extends ApiObject>(
    model: Model<T>,
    path: string,
    object: object,
    options: WriteOptions,
  ): Promise<T> {
    checkOptions('update', options)
    return this.#write(model, options, { method: 'PUT', path, body: withKind(model, object) })
  }

  async patch<T extends ApiObject>(
    model: Model<T>,
    target: string | DeepReadonly<T>,
    patch: Patch<T>,
    options: PatchOptions = {},
  ): Promise<T> {
    refuseStatus(model, patch, 'patchStatus')
    return this.#patch(
      model,
      objectPath(model, targetKey(model, target), this.#namespace),
      target,
      patch,
      options,
    )
  }

  async patchStatus<T extends ApiObject>(
    model: Model<T>,
    target: string | DeepReadonly<T>,
    status: MergePatch<NonNullable<StatusInput<T>>>,
    options: PatchOptions = {},
  ): Promise<T> {
    return this.#patch(
      model,
      statusPath(model, targetKey(model, target), this.#namespace),
      target,
      { status },
      options,
    )
  }

  async #patch<T extends ApiObject>(
    model: Model<T>,
    path: string,
    target: string | DeepReadonly<ApiObject>,
    patch: unknown,
    options: PatchOptions,
  ): Promise<T> {
    checkOptions('patch', options)
    const json = Array.isArray(patch)
    return this.#write(model, options, {
      method: 'PATCH',
      path,
      contentType: json ? 'application/json-patch+json' : 'application/merge-patch+json',
      body: json ? patch : withPreconditions(patch, target, options.version),
    })
  }

  createOrUpdate<T extends ApiObject>(
    model: Model<T>,
    name: string,
    mutate: Mutate<T>,
    options?: CreateOrUpdateOptions,
  ): Promise<WriteOutcome<T>> {
    return createOrUpdate(this, model, qualifiedKey(model, name, this.#namespace), mutate, options)
  }

  async apply<T extends ApiObject>(
    model: Model<T>,
    desired: DesiredObject<T>,
    options: ApplyOptions = {},
  ): Promise<T> {
    refuseStatus(model, desired, 'applyStatus')
    return this.#apply(model, objectPath(model, targetKey(model, desired), this.#namespace), desired, options)
  }

  async applyStatus<T extends ApiObject>(
    model: Model<T>,
    desired: DesiredStatus<T>,
    options: ApplyOptions = {},
  ): Promise<T> {
    if (!model.subresources.status)
      throw new TypeError(`${model.kind} has no status subresource: give the status to apply`)
    return this.#apply(model, statusPath(model, targetKey(model, desired), this.#namespace), desired, options)
  }

  async #apply<T extends ApiObject>(
    model: Model<T>,
    path: string,
    desired: object,
    options: ApplyOptions,
  ): Promise<T> {
    checkOptions('apply', options)
    const { fieldManager = this.#fieldManager, force } = options
    return this.#write(model, options, {
      method: 'PATCH',
      path,
      query: { fieldManager, force: force === true ? true : undefined },
      contentType: 'application/apply-patch+yaml',
      body: withKind(model, desired),
    })
  }

  async delete<T extends ApiObject>(
    model: Model<T>,
    name: string,
    options: DeleteOptions = {},
  ): Promise<T | undefined> {
    checkOptions('delete', options)
    const { preconditions, propagationPolicy, dryRun, signal } = options
    checkPreconditions(preconditions)
    const body = { kind: 'DeleteOptions', apiVersion: 'v1', preconditions, propagationPolicy }
    const path = objectPath(model, name, this.#namespace)
    const text = await this.#send({
      method: 'DELETE',
      path: withQuery(path, { dryRun: dryRun === true ? 'All' : undefined }),
      body: preconditions || propagationPolicy ? body : undefined,
      signal,
    })
    return decodeDeleted(model, text, dryRun)
  }

  action<T extends ApiObject, I extends Schema, O extends Schema | undefined>(
    action: Action<T, I, O>,
    target: string | DeepReadonly<NoInfer<T>>,
    ...given: ActionArguments<I>
  ): Promise<ActionOutput<O>>
  async action(
    action: Action,
    target: string | DeepReadonly<ApiObject>,
    input?: unknown,
    options: RequestOptions = {},
  ): Promise<unknown> {
    checkOptions('action', options)
    const path = actionPath(action, targetKey(action.model, target), this.#namespace)
    return decodeResult(
      action,
      await this.#send({ method: 'POST', path, body: input, signal: options.signal }),
    )
  }

  async watch<T extends ApiObject>(model: Model<T>, options: WatchOptions = {}): Promise<WatchStream<T>> {
    checkOptions('watch', options)
    const { name, signal = new AbortController().signal, ...query } = options
    const namespace = this.#namespace
    const path = name === undefined ? collectionPath(model, namespace) : objectPath(model, name, namespace)
    const connection = await this.#transport.watch(withQuery(path, query), {
      signal,
      headers: this.#headers,
      user: this.#user,
    })
    return {
      end: connection.end,
      close: () => connection.close(),
      async *[Symbol.asyncIterator]() {
        for await (const text of connection) yield decodeEvent(model, text)
      },
    }
  }

  /** Sends a write. Returns the object as stored, or as it would be by a dry run. */
  async #write<T extends ApiObject>(
    model: Model<T>,
    { dryRun, fieldValidation, signal }: WriteOptions,
    { path, query, ...request }: Omit<Sent, 'signal'> & { readonly query?: object },
  ): Promise<T> {
    const parameters = { dryRun: dryRun === true ? 'All' : undefined, fieldValidation, ...query }
    const text = await this.#send({ ...request, path: withQuery(path, parameters), signal })
    return decodeObject(model, text, dryRun)
  }

  /** Returns the body of a 2xx response. */
  async #send({ method, path, signal, body, contentType = 'application/json' }: Sent): Promise<string> {
    const response = await this.#transport.request({
      method,
      path,
      headers: {
        ...this.#headers,
        accept: 'application/json',
        ...(body !== undefined && { 'content-type': contentType }),
      },
      body: body === undefined ? undefined : JSON.stringify(body),
      user: this.#user,
      signal,
    })
    const { onWarning } = this.#options
    if (onWarning !== undefined)
      for (const warning of decodeWarnings(response)) onWarning(warning, { method, path })
    if (response.status >= 200 && response.status <= 299) return response.body
    const error = decodeError(response)
    if (this.#options.plugin !== undefined) callers.set(error, this.#options.plugin)
    throw error
  }
}

/** The plugins whose clients threw these errors. */
const callers = new WeakMap<Error, string>()

/** Returns the plugin whose client threw an error. Its stack has no frame of a caller that did not await the call. */
export function callerOf(error: Error): string | undefined {
  return callers.get(error)
}

/** A request before it is encoded. */
interface Sent {
  readonly method: TransportRequest['method']
  readonly path: string
  readonly signal: AbortSignal | undefined
  readonly body?: unknown
  /** Default: JSON. */
  readonly contentType?: string
}

function withKind({ apiVersion, kind }: Model, object: object): object {
  return { apiVersion, kind, ...object }
}

/**
 * @throws TypeError if a patch or an applied object has a status that the server ignores, because it is a subresource.
 */
function refuseStatus({ kind, subresources }: Model, body: unknown, instead: string): void {
  if (!subresources.status || !isRecord(body) || body.status === undefined) return
  throw new TypeError(`the status of ${kind} is a subresource, and is ignored here: use ${instead}`)
}

/** Adds uid and version to a merge patch; the server treats them as preconditions. */
function withPreconditions(
  patch: unknown,
  target: string | DeepReadonly<ApiObject>,
  version: string | undefined,
): unknown {
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
