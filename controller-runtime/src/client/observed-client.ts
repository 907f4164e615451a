import type { DeepReadonly } from '../api/deep-readonly.ts'
import { isApiError } from '../api/errors.ts'
import type { UserInfo } from '../api/hooks.ts'
import type { Model } from '../api/model.ts'
import type { ApiObject, ObjectList, StatusInput } from '../api/object.ts'
import type { ObjectKey } from '../api/object-key.ts'
import type { DesiredObject, DesiredStatus, MergePatch, NewObjectOf, Patch, ReplacementOf } from './bodies.ts'
import type {
  ApplyOptions,
  Client,
  CreateOrUpdateOptions,
  DeleteOptions,
  ItemsOptions,
  ListOptions,
  PatchOptions,
  ReadOptions,
  WatchOptions,
  WatchStream,
  WriteOptions,
  WriteOutcome,
} from './client.ts'
import { createOrUpdate } from './create-or-update.ts'
import type { Mutate } from './draft.ts'
import { qualifiedKey, targetKey } from './paths.ts'
import { TransportError } from './transport.ts'

/** Observes the writes of an `ObservedClient`. */
export interface WriteObserver {
  /** Called before each write; if it throws, the write is not sent and rejects with that error. */
  writing?(): void
  /** The write was stored as `object`; `removed` if it removed the object. */
  wrote(model: Model, object: ApiObject, removed: boolean): void
  /** The outcome of the write is unknown. */
  uncertain(model: Model, key: ObjectKey): void
}

/**
 * Reports writes to an observer, and ends all requests when `signal` is aborted, also those with a signal of their own.
 */
export class ObservedClient implements Client {
  readonly #inner: Client
  readonly #observer: WriteObserver
  readonly #signal: AbortSignal
  readonly #fieldManager: string
  readonly #namespace: string | undefined

  /** @param fieldManager the manager of applies that name none */
  constructor(
    inner: Client,
    observer: WriteObserver,
    signal: AbortSignal,
    fieldManager: string,
    namespace?: string,
  ) {
    this.#inner = inner
    this.#observer = observer
    this.#signal = signal
    this.#fieldManager = fieldManager
    this.#namespace = namespace
  }

  inNamespace(namespace: string): Client {
    const inner = this.#inner.inNamespace(namespace)
    return new ObservedClient(inner, this.#observer, this.#signal, this.#fieldManager, namespace)
  }

  as(user: UserInfo): Client {
    const inner = this.#inner.as(user)
    return new ObservedClient(inner, this.#observer, this.#signal, this.#fieldManager, this.#namespace)
  }

  get<T extends ApiObject>(model: Model<T>, name: string, options?: ReadOptions): Promise<T> {
    return this.#inner.get(model, name, this.#with(options))
  }

  getIfExists<T extends ApiObject>(
    model: Model<T>,
    name: string,
    options?: ReadOptions,
  ): Promise<T | undefined> {
    return this.#inner.getIfExists(model, name, this.#with(options))
  }

  list<T extends ApiObject>(model: Model<T>, options?: ListOptions): Promise<ObjectList<T>> {
    return this.#inner.list(model, this.#with(options))
  }

  items<T extends ApiObject>(model: Model<T>, options?: ItemsOptions): AsyncIterable<T> {
    return this.#inner.items(model, this.#with(options))
  }

  create<T extends ApiObject>(model: Model<T>, object: NewObjectOf<T>, options?: WriteOptions): Promise<T> {
    const { name, namespace } = object.metadata
    const key = name === undefined ? undefined : targetKey(model, { metadata: { name, namespace } })
    return this.#write(model, key, options, false, () =>
      this.#inner.create(model, object, this.#with(options)),
    )
  }

  update<T extends ApiObject>(model: Model<T>, object: ReplacementOf<T>, options?: WriteOptions): Promise<T> {
    return this.#write(model, targetKey(model, object), options, false, () =>
      this.#inner.update(model, object, this.#with(options)),
    )
  }

  patch<T extends ApiObject>(
    model: Model<T>,
    target: string | DeepReadonly<T>,
    patch: Patch<T>,
    options?: PatchOptions,
  ): Promise<T> {
    return this.#write(model, targetKey(model, target), options, false, () =>
      this.#inner.patch(model, target, patch, this.#with(options)),
    )
  }

  updateStatus<T extends ApiObject>(
    model: Model<T>,
    object: DeepReadonly<T>,
    options?: WriteOptions,
  ): Promise<T> {
    return this.#write(model, targetKey(model, object), options, false, () =>
      this.#inner.updateStatus(model, object, this.#with(options)),
    )
  }

  patchStatus<T extends ApiObject>(
    model: Model<T>,
    target: string | DeepReadonly<T>,
    status: MergePatch<NonNullable<StatusInput<T>>>,
    options?: PatchOptions,
  ): Promise<T> {
    return this.#write(model, targetKey(model, target), options, false, () =>
      this.#inner.patchStatus(model, target, status, this.#with(options)),
    )
  }

  /** Through the methods above, so that each request is observed. */
  createOrUpdate<T extends ApiObject>(
    model: Model<T>,
    name: string,
    mutate: Mutate<T>,
    options?: CreateOrUpdateOptions,
  ): Promise<WriteOutcome<T>> {
    return createOrUpdate(
      this,
      model,
      qualifiedKey(model, name, this.#namespace),
      mutate,
      this.#with(options),
    )
  }

  apply<T extends ApiObject>(model: Model<T>, desired: DesiredObject<T>, options?: ApplyOptions): Promise<T> {
    return this.#write(model, targetKey(model, desired), options, false, () =>
      this.#inner.apply(model, desired, this.#managed(options)),
    )
  }

  applyStatus<T extends ApiObject>(
    model: Model<T>,
    desired: DesiredStatus<T>,
    options?: ApplyOptions,
  ): Promise<T> {
    return this.#write(model, targetKey(model, desired), options, false, () =>
      this.#inner.applyStatus(model, desired, this.#managed(options)),
    )
  }

  delete<T extends ApiObject>(model: Model<T>, name: string, options?: DeleteOptions): Promise<T> {
    return this.#write(model, name, options, true, () => this.#inner.delete(model, name, this.#with(options)))
  }

  watch<T extends ApiObject>(model: Model<T>, options?: WatchOptions): Promise<WatchStream<T>> {
    return this.#inner.watch(model, this.#with(options))
  }

  async #write<T extends ApiObject>(
    model: Model<T>,
    key: ObjectKey | undefined,
    options: WriteOptions | undefined,
    deletes: boolean,
    send: () => Promise<T>,
  ): Promise<T> {
    const dryRun = options?.dryRun === true
    // A transport may ignore the signal.
    this.#signal.throwIfAborted()
    this.#observer.writing?.()
    let written: T
    try {
      written = await send()
    } catch (error) {
      const isAborted = this.#signal.aborted || options?.signal?.aborted === true
      if (key !== undefined && !dryRun && (isAborted || mayHaveHappened(error)))
        this.#observer.uncertain(model, qualifiedKey(model, key, this.#namespace))
      throw error
    }
    if (!dryRun) this.#observer.wrote(model, written, isRemoved(written, deletes))
    return written
  }

  #managed(options: ApplyOptions | undefined): ApplyOptions {
    return { fieldManager: this.#fieldManager, ...this.#with(options) }
  }

  #with<O extends { readonly signal?: AbortSignal }>(options: O | undefined): O & { signal: AbortSignal } {
    const own = options?.signal
    const signal = own === undefined ? this.#signal : AbortSignal.any([this.#signal, own])
    return Object.assign({}, options, { signal })
  }
}

/** A delete removes an object without finalizers; so does removing the last finalizer of a deleting object. */
function isRemoved({ metadata }: ApiObject, deletes: boolean): boolean {
  const deleting = deletes || metadata.deletionTimestamp !== undefined
  return deleting && (metadata.finalizers === undefined || metadata.finalizers.length === 0)
}

/** An abort, for any reason, also leaves the outcome unknown: the request may have been sent. */
function mayHaveHappened(error: unknown): boolean {
  return error instanceof TransportError || isApiError(error, 'Timeout', 'InternalError')
}
