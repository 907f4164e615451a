import { type Clock, sleep, systemClock } from '@setpoint/controller-runtime'
import { isApiError, type ObjectKey } from '@setpoint/controller-runtime/api'
import type { CacheEvent, Entry, ModelCache } from '../cache/index.ts'
import type { Logger } from '../log/index.ts'
import {
  type BareObject,
  decodeWire,
  IndexSet,
  type ModelRegistry,
  type ServedModel,
  valuesAt,
} from '../model/index.ts'
import {
  declaredWriteOptions,
  deleteAll,
  type Registry,
  recordsPrefix,
  serviceWriteOptions,
} from '../registry/index.ts'
import { currentPages, type KeyValue, type Storage } from '../storage/index.ts'
import { contentFinalizer, finalizersOf, permanentNamespaces } from './kinds/namespace.ts'
import { conditionsOf, NamespaceContent } from './namespace-conditions.ts'

export const namespaceLifecycleDefaults = Object.freeze({
  /** Keys read at once. */
  pageSize: 500,
  /**
   * Milliseconds until a namespace is looked at again whose objects wait for their finalizers, doubled up to the
   * second.
   */
  againMs: 100,
  longestAgainMs: 10_000,
  /** Milliseconds between attempts while the store is unavailable. */
  retryMs: 1_000,
})

interface Parts {
  /** The kind Namespace. */
  readonly kind: ServedModel
  readonly models: ModelRegistry
  readonly registry: Pick<Registry, 'create' | 'patch' | 'delete' | 'readLive'>
  readonly storage: Storage
  readonly log: Logger
  readonly clock?: Clock
}

/**
 * Keeps the permanent namespaces in existence, and ends those that are being deleted: deletes the objects in them,
 * waits for their finalizers, and then removes the finalizer of the namespace.
 *
 * Guarantees: a namespace is removed only when a read of the store, after its deletion has started, has found no object
 * in it. None is created later, because each creation compares the namespace's revision (`KnownNamespaces`). Objects of
 * a kind that this server does not serve keep the namespace.
 *
 * Every server does this for every namespace. Deletions are idempotent, so servers at the same work only repeat each
 * other's, and a crash only needs a restart. A server that is behind deletes nothing of a later namespace of the same name:
 * after it has read which objects there are, it looks whether the namespace is still the same, and then deletes only these
 * versions of them.
 */
export class NamespaceLifecycle {
  readonly #parts: Parts
  readonly #clock: Clock
  readonly #ending = new Set<string>()

  constructor(parts: Parts) {
    this.#parts = parts
    this.#clock = parts.clock ?? systemClock
  }

  /**
   * Creates the permanent namespaces if they are missing. Waits while the store is unavailable. @throws when aborted
   */
  async ensure(signal: AbortSignal): Promise<void> {
    const { kind, registry, storage, log } = this.#parts
    const { apiVersion, kind: name } = kind.model
    for (const namespace of permanentNamespaces) {
      for (;;) {
        signal.throwIfAborted()
        try {
          if ((await storage.get(kind.keyOf(namespace))).pair !== undefined) break
          const object = { apiVersion, kind: name, metadata: { name: namespace } }
          await registry.create(kind, object, declaredWriteOptions)
          break
        } catch (error) {
          if (isApiError(error, 'AlreadyExists')) break
          log.warn({ namespace, err: error }, 'failed to create a namespace, retrying')
          await sleep(this.#clock, namespaceLifecycleDefaults.retryMs, signal)
        }
      }
    }
  }

  /** Ends deleting namespaces until the signal is aborted. */
  follow(cache: ModelCache, signal: AbortSignal): void {
    const look = (entry: Entry | undefined) => {
      if (entry !== undefined && isDeleting(entry)) this.#end(entry.name, signal)
    }
    const lookAtAll = () => cache.store.snapshot().objects.forEachValue(look)
    const stop = cache.observe({ changed: ({ next }: CacheEvent) => look(next), reset: lookAtAll })
    signal.addEventListener('abort', stop, { once: true })
    lookAtAll()
  }

  #end(namespace: string, signal: AbortSignal): void {
    if (signal.aborted || this.#ending.has(namespace)) return
    this.#ending.add(namespace)
    void this.#untilEnded(namespace, signal).finally(() => this.#ending.delete(namespace))
  }

  /** Never rejects. */
  async #untilEnded(namespace: string, signal: AbortSignal): Promise<void> {
    const { log } = this.#parts
    const { againMs, longestAgainMs } = namespaceLifecycleDefaults
    for (let turn = 0; !signal.aborted; turn++) {
      try {
        if (await this.#turn(namespace, turn > 0, signal)) return
      } catch (error) {
        if (signal.aborted) return
        log.warn({ namespace, err: error }, 'failed to delete the content of a namespace, retrying')
      }
      const delayMs = Math.min(longestAgainMs, againMs * 2 ** Math.min(turn, 10))
      await sleep(this.#clock, delayMs, signal).catch(() => {})
    }
  }

  /**
   * Deletes the content of a namespace. Returns true if nothing is left to do.
   * @param tells whether the conditions say what is left. Most namespaces are empty before anyone could read that.
   */
  async #turn(namespace: string, tells: boolean, signal: AbortSignal): Promise<boolean> {
    const { kind, registry, log } = this.#parts
    const live = await registry.readLive(kind, namespace)
    const object = live?.stored.object
    if (object?.metadata.deletionTimestamp === undefined) return true
    const finalizers = finalizersOf(object)
    if (!finalizers.includes(contentFinalizer)) return true
    const content = await this.#deleteContent(namespace, object.metadata.uid, signal)
    if (!content.isEmpty) {
      if (tells) await this.#tell(object, content)
      return false
    }
    const others = finalizers.filter(finalizer => finalizer !== contentFinalizer)
    if (others.length > 0 || object.metadata.finalizers !== undefined) await this.#tell(object, content)
    const document = { metadata: { uid: object.metadata.uid }, spec: { finalizers: others } }
    await registry
      .patch(kind, namespace, { type: 'merge', document }, 'finalize', serviceWriteOptions)
      .catch(error => {
        // Another server was faster.
        if (!isApiError(error, 'NotFound', 'Conflict')) throw error
      })
    log.info({ namespace }, 'the namespace is empty and has been deleted')
    return true
  }

  async #tell(object: BareObject, content: NamespaceContent): Promise<void> {
    const { kind, registry } = this.#parts
    const { name, uid } = object.metadata
    const conditions = conditionsOf(object, content, this.#clock.now())
    const patch = { type: 'merge', document: { metadata: { uid }, status: { conditions } } } as const
    await registry.patch(kind, name, patch, 'status', serviceWriteOptions).catch(error => {
      if (!isApiError(error, 'NotFound', 'Conflict')) throw error
    })
  }

  /** Deletes the objects in a namespace, of every kind that it can. Returns what it found and left. */
  async #deleteContent(namespace: string, uid: string, signal: AbortSignal): Promise<NamespaceContent> {
    const { models, log } = this.#parts
    const served = new Map([...models.all()].map(each => [each.resource, each]))
    const content = new NamespaceContent()
    // Each kind that has ever been served has a record.
    for await (const records of this.#pages(recordsPrefix, signal)) {
      for (const { key } of records) {
        const resource = key.slice(recordsPrefix.length)
        await this.#deleteKind({ namespace, uid, resource, kind: served.get(resource) }, content, signal)
      }
    }
    for (const kind of content.unserved)
      log.warn({ namespace, kind }, 'the namespace has objects of a kind that is not served here')
    return content
  }

  async #deleteKind(
    {
      namespace,
      uid,
      resource,
      kind,
    }: { namespace: string; uid: string; resource: string; kind: ServedModel | undefined },
    content: NamespaceContent,
    signal: AbortSignal,
  ): Promise<void> {
    const title = titleOf(resource)
    for await (const pairs of this.#pages(`objects/${resource}/${namespace}/`, signal)) {
      if (pairs.length === 0) return
      content.isEmpty = false
      // Another server was faster, and these may be objects of a later namespace.
      if (!(await this.#isThere(namespace, uid))) return
      if (kind === undefined) {
        content.addUnserved(title, pairs.length)
        continue
      }
      try {
        await this.#deleteAll(kind, pairs, finalizers => content.addHeld(title, finalizers), signal)
      } catch (error) {
        signal.throwIfAborted()
        const { log } = this.#parts
        log.warn({ namespace, resource, err: error }, 'failed to delete objects of a namespace, retrying')
        content.addFailure(title, error)
        return
      }
    }
  }

  async #isThere(namespace: string, uid: string): Promise<boolean> {
    const { kind, registry } = this.#parts
    return (await registry.readLive(kind, namespace))?.stored.object.metadata.uid === uid
  }

  #pages(prefix: string, signal: AbortSignal): AsyncIterable<readonly KeyValue[]> {
    const { pageSize: limit } = namespaceLifecycleDefaults
    return currentPages(this.#parts.storage, prefix, { limit, signal, keysOnly: true })
  }

  /** Deletes these versions of objects, and reports the finalizers of each that stays. */
  async #deleteAll(
    kind: ServedModel,
    pairs: readonly KeyValue[],
    stays: (finalizers: readonly string[]) => void,
    signal: AbortSignal,
  ): Promise<void> {
    await deleteAll({
      registry: this.#parts.registry,
      served: kind,
      keys: pairs.map(({ key }) => keyIn(kind, key)),
      deletion: at => ({ versions: [String(pairs[at]?.modRevision)] }),
      leavesChanged: true,
      options: { ...serviceWriteOptions, signal },
      deleted({ bytes }) {
        const { deletionTimestamp, finalizers = [] } = decodeWire(bytes).metadata
        if (deletionTimestamp !== undefined) stays(finalizers)
      },
    })
  }
}

function isDeleting(entry: Entry): boolean {
  return valuesAt(entry, IndexSet.deletionTimestamp).length === 1
}

function keyIn({ keyPrefix }: ServedModel, storeKey: string): ObjectKey {
  return storeKey.slice(keyPrefix.length)
}

/**
 * Returns `<plural>.<group>` for a resource `<group>/<plural>`. As in Kubernetes, the dot is there without a group,
 * too.
 */
function titleOf(resource: string): string {
  const [group = '', plural = ''] = resource.split('/')
  return `${plural}.${group}`
}
