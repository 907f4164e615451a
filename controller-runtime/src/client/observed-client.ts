import { isApiError } from '../api/errors.ts'
import type { Model } from '../api/model.ts'
import type { ApiObject } from '../api/object.ts'
import type { ObjectKey } from '../api/object-key.ts'
import type { ApplyOptions, Client, WriteOptions } from './client.ts'
import { createOrUpdate } from './create-or-update.ts'
import { qualifiedKey, targetKey } from './paths.ts'
import { TransportError } from './transport.ts'

/** Observes the writes of an observed client. */
export interface WriteObserver {
  /** Called before each write; if it throws, the write is not sent and rejects with that error. */
  writing?(): void
  /** The write was stored as `object`; `removed` if it removed the object. */
  wrote(model: Model, object: ApiObject, removed: boolean): void
  /** The outcome of the write is unknown. */
  uncertain(model: Model, key: ObjectKey): void
}

/**
 * Returns a client that reports writes to an observer, and ends all requests when `signal` is aborted, also those with a
 * signal of their own.
 *
 * @param fieldManager the manager of applies that name none
 * @param namespace that of `inner`, if it has one
 */
export function observeClient(
  inner: Client,
  observer: WriteObserver,
  signal: AbortSignal,
  fieldManager: string,
  namespace?: string,
): Client {
  const bound = <O extends { readonly signal?: AbortSignal }>(options?: O): O & { signal: AbortSignal } => {
    const own = options?.signal
    return Object.assign({}, options, { signal: own === undefined ? signal : AbortSignal.any([signal, own]) })
  }
  const managed = (options?: ApplyOptions): ApplyOptions => ({ fieldManager, ...bound(options) })
  const write = async <T extends ApiObject, R extends T | undefined>(
    model: Model<T>,
    key: ObjectKey | undefined,
    options: WriteOptions | undefined,
    send: () => Promise<R>,
    deletes = false,
  ): Promise<R> => {
    const dryRun = options?.dryRun === true
    // A transport may ignore the signal.
    signal.throwIfAborted()
    observer.writing?.()
    let written: R
    try {
      written = await send()
    } catch (error) {
      const isAborted = signal.aborted || options?.signal?.aborted === true
      if (key !== undefined && !dryRun && (isAborted || mayHaveHappened(error)))
        observer.uncertain(model, qualifiedKey(model, key, namespace))
      throw error
    }
    if (dryRun) return written
    if (written !== undefined) observer.wrote(model, written, isRemoved(written, deletes))
    // The response to the deletion of a sensitive object does not tell whether finalizers hold it.
    else if (key !== undefined) observer.uncertain(model, qualifiedKey(model, key, namespace))
    return written
  }
  const client: Client = {
    inNamespace: name => observeClient(inner.inNamespace(name), observer, signal, fieldManager, name),
    as: user => observeClient(inner.as(user), observer, signal, fieldManager, namespace),
    get: (model, name, options) => inner.get(model, name, bound(options)),
    getIfExists: (model, name, options) => inner.getIfExists(model, name, bound(options)),
    list: (model, options) => inner.list(model, bound(options)),
    items: (model, options) => inner.items(model, bound(options)),
    watch: (model, options) => inner.watch(model, bound(options)),
    create(model, object, options) {
      const { name, namespace } = object.metadata
      const key = name === undefined ? undefined : targetKey(model, { metadata: { name, namespace } })
      return write(model, key, options, () => inner.create(model, object, bound(options)))
    },
    update: (model, object, options) =>
      write(model, targetKey(model, object), options, () => inner.update(model, object, bound(options))),
    patch: (model, target, patch, options) =>
      write(model, targetKey(model, target), options, () =>
        inner.patch(model, target, patch, bound(options)),
      ),
    updateStatus: (model, object, options) =>
      write(model, targetKey(model, object), options, () =>
        inner.updateStatus(model, object, bound(options)),
      ),
    patchStatus: (model, target, status, options) =>
      write(model, targetKey(model, target), options, () =>
        inner.patchStatus(model, target, status, bound(options)),
      ),
    apply: (model, desired, options) =>
      write(model, targetKey(model, desired), options, () => inner.apply(model, desired, managed(options))),
    applyStatus: (model, desired, options) =>
      write(model, targetKey(model, desired), options, () =>
        inner.applyStatus(model, desired, managed(options)),
      ),
    delete: (model, name, options) =>
      write(model, name, options, () => inner.delete(model, name, bound(options)), true),
    // Through the functions above, so that each request is observed.
    createOrUpdate: (model, name, mutate, options) =>
      createOrUpdate(client, model, qualifiedKey(model, name, namespace), mutate, bound(options)),
  }
  return client
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
