import type { Action, ActionOutput } from '../api/action.ts'
import type { DeepReadonly } from '../api/deep-readonly.ts'
import { isApiError } from '../api/errors.ts'
import type { Model } from '../api/model.ts'
import type { ApiObject } from '../api/object.ts'
import type { ObjectKey } from '../api/object-key.ts'
import type { Schema } from '../api/schema.ts'
import { linkedSignal } from '../linked-signal.ts'
import type { ActionArguments, Client, RequestOptions, WriteOptions } from './client.ts'
import { createOrUpdate } from './create-or-update.ts'
import { qualifiedKey, targetKey } from './paths.ts'
import { TransportError } from './transport.ts'

/** Observes the calls of an observed client. */
export interface CallObserver {
  /** Called before each call, except watches and `items`. */
  began?(): void
  /** Called when a call that began has settled. */
  settled?(): void
  /** Called before each write; if it throws, the write is not sent and rejects with that error. */
  writing?(): void
  /** The write was stored as `object`; `removed` if it removed the object. */
  wrote(model: Model, object: ApiObject, removed: boolean): void
  /** The outcome of the write is unknown. */
  uncertain(model: Model, key: ObjectKey): void
}

/**
 * Returns a client that reports its calls to an observer, and ends all requests when `signal` is aborted, also those
 * with a signal of their own.
 *
 * @param fieldManager the manager of applies that name none
 * @param namespace that of `inner`, if it has one
 */
export function observeClient(
  inner: Client,
  observer: CallObserver,
  signal: AbortSignal,
  fieldManager: string,
  namespace?: string,
): Client {
  /** Sends a request that both signals end. */
  const bound = async <O extends RequestOptions, R>(
    options: O | undefined,
    send: (options: O & { readonly signal: AbortSignal }) => Promise<R>,
  ): Promise<R> => {
    const linked = linkedSignal(signal, options?.signal)
    observer.began?.()
    try {
      return await send(Object.assign({}, options, { signal: linked.signal }))
    } finally {
      observer.settled?.()
      linked.dispose()
    }
  }
  const write = async <T extends ApiObject, O extends WriteOptions, R extends T | undefined>(
    model: Model<T>,
    key: ObjectKey | undefined,
    options: O | undefined,
    send: (options: O) => Promise<R>,
    deletes = false,
  ): Promise<R> => {
    const dryRun = options?.dryRun === true
    // A transport may ignore the signal.
    signal.throwIfAborted()
    observer.writing?.()
    let written: R
    try {
      written = await bound(options, send)
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
  function act<T extends ApiObject, I extends Schema, O extends Schema | undefined>(
    action: Action<T, I, O>,
    target: string | DeepReadonly<NoInfer<T>>,
    ...given: ActionArguments<I>
  ): Promise<ActionOutput<O>>
  async function act(
    action: Action,
    target: string | DeepReadonly<ApiObject>,
    input?: unknown,
    options?: RequestOptions,
  ): Promise<unknown> {
    signal.throwIfAborted()
    observer.writing?.()
    return bound(options, both => inner.action(action, target, input, both))
  }
  const client: Client = {
    inNamespace: name => observeClient(inner.inNamespace(name), observer, signal, fieldManager, name),
    as: user => observeClient(inner.as(user), observer, signal, fieldManager, namespace),
    get: (model, name, options) => bound(options, both => inner.get(model, name, both)),
    getIfExists: (model, name, options) => bound(options, both => inner.getIfExists(model, name, both)),
    list: (model, options) => bound(options, both => inner.list(model, both)),
    async *items(model, options) {
      const linked = linkedSignal(signal, options?.signal)
      try {
        yield* inner.items(model, { ...options, signal: linked.signal })
      } finally {
        linked.dispose()
      }
    },
    async watch(model, options) {
      const linked = linkedSignal(signal, options?.signal)
      try {
        const stream = await inner.watch(model, { ...options, signal: linked.signal })
        void stream.end.then(linked.dispose)
        return stream
      } catch (error) {
        linked.dispose()
        throw error
      }
    },
    create(model, object, options) {
      const { name, namespace } = object.metadata
      const key = name === undefined ? undefined : targetKey(model, { metadata: { name, namespace } })
      return write(model, key, options, both => inner.create(model, object, both))
    },
    update: (model, object, options) =>
      write(model, targetKey(model, object), options, both => inner.update(model, object, both)),
    patch: (model, target, patch, options) =>
      write(model, targetKey(model, target), options, both => inner.patch(model, target, patch, both)),
    updateStatus: (model, object, options) =>
      write(model, targetKey(model, object), options, both => inner.updateStatus(model, object, both)),
    patchStatus: (model, target, status, options) =>
      write(model, targetKey(model, target), options, both => inner.patchStatus(model, target, status, both)),
    apply: (model, desired, options) =>
      write(model, targetKey(model, desired), options, both =>
        inner.apply(model, desired, { fieldManager, ...both }),
      ),
    applyStatus: (model, desired, options) =>
      write(model, targetKey(model, desired), options, both =>
        inner.applyStatus(model, desired, { fieldManager, ...both }),
      ),
    delete: (model, name, options) =>
      write(model, name, options, both => inner.delete(model, name, both), true),
    // It may write objects of the kind, but its response does not tell which.
    action: act,
    // Through the functions above, so that each request is observed.
    createOrUpdate: (model, name, mutate, options) =>
      bound(options, both =>
        createOrUpdate(client, model, qualifiedKey(model, name, namespace), mutate, both),
      ),
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
