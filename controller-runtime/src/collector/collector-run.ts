import { setMaxListeners } from 'node:events'
import { isApiError } from '../api/errors.ts'
import type { Model } from '../api/model.ts'
import type { ApiObject, OwnerReference } from '../api/object.ts'
import { type ObjectKey, objectKey } from '../api/object-key.ts'
import { propagationFinalizers } from '../api/propagation.ts'
import { compareVersions } from '../api/version.ts'
import type { Client } from '../client/client.ts'
import { failureFields, isServerAway, retryAfterMs } from '../client/server-away.ts'
import { type Clock, sleep } from '../clock.ts'
import { removeFinalizer } from '../controller/finalizer.ts'
import { linkedSignal } from '../linked-signal.ts'
import type { Logger } from '../logger.ts'
import type { QueueStatus } from '../metrics/index.ts'
import type { WatcherEvent } from '../watch/watcher.ts'
import type { WorkQueueObserver } from '../workqueue/queue-observer.ts'
import { priorities, WorkQueue } from '../workqueue/work-queue.ts'
import { Yielder } from '../yielder.ts'
import { type CollectorCounts, collectorDefaults } from './defaults.ts'
import {
  Graph,
  keyOf,
  type Node,
  type Owner,
  phaseOf,
  resourceOf,
  type Standing,
  type Work,
} from './graph.ts'
import type { KindSource } from './kind-source.ts'
import { KindView } from './kind-view.ts'
import { type OrphanRecord, OrphanRecords } from './orphan-records.ts'
import { readLive } from './read-live.ts'
import { syncActionFor } from './sync-action.ts'

type WorkKey = `check ${string}` | `sync ${string}` | `end ${string}`

interface CollectorRunOptions {
  readonly client: Client
  readonly kinds: KindSource
  readonly log: Logger
  readonly clock: Clock
  /** Ends the run. */
  readonly signal: AbortSignal
  /** Incremented by the run. */
  readonly counts: CollectorCounts
  readonly observer: WorkQueueObserver
  readonly reservedDomain: string
}

/** One run of a collector, from its start to its abort. It starts without state. */
export class CollectorRun {
  readonly #client: Client
  readonly #kinds: KindSource
  readonly #log: Logger
  readonly #clock: Clock
  readonly #signal: AbortSignal
  readonly #counts: CollectorCounts
  readonly #views = new Map<string, KindView>()
  /** Those of kinds that are no longer served, until their watches have ended. */
  readonly #leaving = new Map<string, KindView>()
  readonly #graph = new Graph((group, kind) => this.#modelsOf(group, kind).some(isNamespaced))
  readonly #queue: WorkQueue
  readonly #yielder: Yielder
  /** Work on waiting objects that depends on views which are behind. */
  readonly #parked = new Set<WorkKey>()
  readonly #orphanRecords: OrphanRecords
  #catchingUp = false

  constructor({ client, kinds, log, clock, signal, counts, observer, reservedDomain }: CollectorRunOptions) {
    this.#client = client
    this.#kinds = kinds
    this.#log = log
    this.#clock = clock
    this.#signal = signal
    this.#counts = counts
    this.#queue = new WorkQueue({ clock, backoffMaxMs: collectorDefaults.backoffMaxMs, observer })
    this.#yielder = new Yielder(clock)
    this.#orphanRecords = new OrphanRecords(client, reservedDomain)
    setMaxListeners(0, signal)
  }

  get queue(): QueueStatus {
    return this.#queue
  }

  /** Runs until the abort; resolves when all work has ended. */
  async work(concurrency: number): Promise<void> {
    const end = () => this.#queue.shutDown()
    if (this.#signal.aborted) end()
    this.#signal.addEventListener('abort', end, { once: true })
    const workers = Array.from({ length: concurrency }, () => this.#worker())
    await Promise.all([this.#followKinds(), this.#clearRecords(), ...workers])
    await Promise.all([...this.#views.values(), ...this.#leaving.values()].map(view => view.stop()))
    this.#signal.removeEventListener('abort', end)
  }

  async #followKinds(): Promise<void> {
    const signal = this.#signal
    while (!signal.aborted) {
      try {
        for await (const models of this.#kinds.follow(signal)) this.#serve(models)
      } catch (error) {
        if (signal.aborted) return
        this.#log.error({ err: error }, 'failed to follow the served kinds, retrying')
      }
      await sleep(this.#clock, collectorDefaults.restartMs, signal).catch(() => {})
    }
  }

  /**
   * Follows the served kinds. The graph keeps the objects of a kind that is no longer served: they are still stored.
   */
  #serve(models: readonly Model[]): void {
    const served = new Set(models.map(resourceOf))
    for (const [resource, view] of this.#views) {
      if (served.has(resource)) continue
      this.#views.delete(resource)
      this.#leaving.set(resource, view)
      void view.finish().then(() => {
        if (this.#leaving.get(resource) === view) this.#leaving.delete(resource)
      })
    }
    for (const model of models) {
      const resource = resourceOf(model)
      const view = this.#views.get(resource)
      if (view?.model.apiVersion === model.apiVersion && view.model.kind === model.kind) continue
      void view?.stop()
      void this.#leaving.get(resource)?.stop()
      const next = new KindView(model, {
        client: this.#client,
        log: this.#log,
        clock: this.#clock,
        concerns: object => this.#graph.concerns(model, object),
        take: event => this.#take(model, event),
      })
      this.#views.set(resource, next)
      next.start()
      this.#enqueue(this.#graph.revisit(model), priorities.initial)
    }
  }

  async #take(model: Model, event: WatcherEvent): Promise<void> {
    switch (event.type) {
      case 'replaced': {
        const keys = new Set<string>()
        for (const object of event.objects) {
          keys.add(keyOf(model, object.metadata))
          this.#enqueue(this.#graph.apply(model, object), priorities.initial)
          const pause = this.#yielder.pause()
          if (pause !== undefined) await pause
        }
        this.#enqueue(this.#graph.retain(model, keys), priorities.initial)
        return
      }
      case 'applied':
        this.#enqueue(this.#graph.apply(model, event.object), priorities.live)
        return
      case 'deleted':
        this.#enqueue(this.#graph.remove(model, event.object), priorities.live)
    }
  }

  #enqueue({ checks, syncs, endings }: Work, priority: number): void {
    const add = (key: WorkKey) => this.#queue.add(key, { priority })
    for (const owner of checks) add(`check ${owner.key}`)
    for (const { resource, object } of syncs) add(`sync ${resource}/${object}`)
    for (const { resource, object } of endings) add(`end ${resource}/${object}`)
  }

  async #worker(): Promise<void> {
    for (;;) {
      const item = await this.#queue.get()
      if (item === undefined) return
      const { key, priority } = item
      const running = linkedSignal(this.#signal)
      const cancel = this.#clock.setTimeout(
        () => running.abort(new DOMException('no response in time', 'TimeoutError')),
        collectorDefaults.timeoutMs,
      )
      try {
        await this.#work(key, running.signal)
        this.#queue.forget(key)
      } catch (error) {
        this.#fail(key, priority, error)
      } finally {
        cancel()
        running.dispose()
        this.#queue.done(key)
      }
      const pause = this.#yielder.pause()
      if (pause !== undefined) await pause
    }
  }

  #fail(key: string, priority: number, error: unknown): void {
    this.#counts.failed++
    if (this.#queue.isShutDown) return
    const delayMs = this.#queue.addRateLimited(key, {
      priority,
      atLeastMs: retryAfterMs(error),
    })
    const fields = { ...failureFields(error), work: key, delayMs }
    if (isApiError(error, 'Conflict')) this.#log.debug(fields, 'object has changed, retrying')
    else if (isServerAway(error) && delayMs < collectorDefaults.awayDelayMs)
      this.#log.debug(fields, 'server is not ready, retrying')
    else this.#log.warn(fields, 'garbage collection failed, retrying')
  }

  #work(key: string, signal: AbortSignal): Promise<void> {
    const [action, subject] = splitAt(key, key.indexOf(' '))
    if (action === 'check') return this.#check(subject, signal)
    const [resource, object] = splitSubject(subject)
    const node = this.#graph.node(resource, object)
    const model = this.#views.get(resource)?.model
    // An object of a kind that is not served cannot be changed; the kind is enqueued again once it is served.
    if (node === undefined || model === undefined) return Promise.resolve()
    return action === 'sync' ? this.#sync(node, model, signal) : this.#end(node, model, signal)
  }

  /** Finds out whether an owner exists. */
  async #check(key: string, signal: AbortSignal): Promise<void> {
    const owner = this.#graph.owner(key)
    if (owner === undefined || (owner.standing !== 'unchecked' && owner.standing !== 'unresolved')) return
    const { asked, seen } = owner
    const record = (standing: Standing) => {
      // A stale result is dropped: the owner may have been replaced, or another check requested.
      if (this.#graph.owner(key) === owner && owner.asked === asked)
        this.#enqueue(this.#graph.setStanding(owner, standing, seen), priorities.live)
    }
    try {
      record(await this.#lookUp(owner, signal))
    } catch (error) {
      record('unresolved')
      throw error
    }
  }

  #modelsOf(group: string, kind: string): Model[] {
    return [...this.#views.values()]
      .map(view => view.model)
      .filter(model => model.group === group && model.kind === kind)
  }

  async #lookUp(owner: Owner, signal: AbortSignal): Promise<Standing> {
    const { group, kind, namespace, name, uid, seen, deletedAt } = owner
    const models = this.#modelsOf(group, kind)
    const wasDeleted = deletedAt !== undefined && compareVersions(seen, deletedAt) < 0
    if (models.length === 0 && !wasDeleted) return 'unresolved'
    if (namespace === undefined && models.some(isNamespaced)) {
      // As in Kubernetes, a cluster-scoped object is never collected for an owner in a namespace.
      this.#log.warn(
        { kind, object: name },
        'a cluster-scoped object refers to an owner of a namespaced kind',
      )
      return 'unresolved'
    }
    const key = objectKey({ namespace, name })
    // Two versions of a group may use different plurals for a kind: the owner must exist in none of them.
    for (const model of models) {
      const found = await readLive(this.#client, model, key, signal)
      if (found?.metadata.uid === uid) return phaseOf(found.metadata) ?? 'present'
    }
    if (this.#servesRecords && (await this.#orphanRecords.has(uid, signal))) return 'orphaning'
    return 'absent'
  }

  /** Deletes a dependent or removes its references, depending on its owners. */
  async #sync(node: Node, model: Model, signal: AbortSignal): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      const live = await readLive(this.#client, model, node.object, signal)
      // Gone: its event follows.
      if (live === undefined || live.metadata.uid !== node.uid) return
      const standingOf = (reference: OwnerReference) =>
        // A reference that is not in the graph yet is unchecked too.
        this.#graph.owner(this.#graph.keyOfReference(reference, node.namespace))?.standing ?? 'unchecked'
      const hasDependents = this.#graph.owner(node.key) !== undefined
      const action = syncActionFor(live.metadata, standingOf, hasDependents)
      if (action.do === 'nothing') return
      const doubts = this.#graph.doubt(live.metadata)
      if (doubts.checks.size > 0) return this.#enqueue(doubts, priorities.live)
      const { uid, version, ownerReferences } = live.metadata
      const fields = { resource: node.resource, object: node.object, ownerReferences }
      try {
        if (action.do === 'delete') {
          await this.#client.delete(model, node.object, {
            preconditions: { uid, version },
            propagationPolicy: action.policy,
            signal,
          })
          this.#counts.deleted++
          this.#log.info(fields, 'deleted dependent without owners')
        } else {
          await this.#putReferences(model, live, action.references, signal)
          this.#counts.released++
          this.#log.debug({ ...fields, kept: action.references.length }, 'removed owner references')
        }
        return
      } catch (error) {
        if (isApiError(error, 'NotFound') && error.details?.name === live.metadata.name) return
        if (!isApiError(error, 'Conflict') || attempt >= collectorDefaults.attempts) throw error
      }
    }
  }

  /** @throws ApiError Conflict if the object has changed since it was read. */
  async #putReferences(
    model: Model,
    live: ApiObject,
    references: readonly OwnerReference[],
    signal: AbortSignal,
  ): Promise<void> {
    const ownerReferences = references.length === 0 ? null : [...references]
    const { version } = live.metadata
    await this.#client.patch(model, live, { metadata: { ownerReferences } }, { version, signal })
  }

  /** Removes the finalizer of an object that waits for its dependents, unless it must still wait. */
  async #end(node: Node, model: Model, signal: AbortSignal): Promise<void> {
    const { phase } = node
    if (phase === undefined) return
    if (this.#graph.isHeld(node)) {
      if (phase === 'foreground') await this.#breakCircles(node, signal)
      return
    }
    const key: WorkKey = `end ${node.resource}/${node.object}`
    const behind = this.#behind(node)
    if (behind.some(view => view.silentMs < collectorDefaults.silenceMs)) {
      this.#parked.add(key)
      void this.#catchUpViews()
      return
    }
    const live = await readLive(this.#client, model, node.object, signal)
    if (live === undefined || live.metadata.uid !== node.uid || phaseOf(live.metadata) !== phase) return
    // Dependents that appeared during the read are in the graph by now, or were created after the deletion.
    if (this.#graph.isHeld(node)) return
    if (phase === 'orphaning' && behind.length > 0) await this.#remember(live, behind, signal)
    const finalizer = phase === 'foreground' ? propagationFinalizers.Foreground : propagationFinalizers.Orphan
    await removeFinalizer(this.#client, model, live, finalizer, collectorDefaults.attempts)
    this.#counts.ended++
    this.#log.debug({ resource: node.resource, object: node.object, finalizer }, 'completed deletion')
  }

  /** Returns the views that may lack objects from before the deletion. */
  #behind({ phaseSince }: Node): KindView[] {
    return [...this.#views.values()].filter(view => !view.hasReached(phaseSince))
  }

  /**
   * A silent kind must not block a deletion forever. After a foreground deletion its objects are collected once it is
   * back. Those of an orphaning owner must not be, so a record is written before the owner goes.
   */
  async #remember(
    { apiVersion, kind, metadata: { namespace, name, uid } }: ApiObject,
    silent: readonly KindView[],
    signal: AbortSignal,
  ): Promise<void> {
    const kinds = silent.map(view => resourceOf(view.model))
    const owner = { apiVersion, kind, namespace, name, uid }
    await this.#orphanRecords.write(owner, kinds, signal)
    this.#log.warn(
      { kind, object: objectKey({ namespace, name }), uid, kinds },
      'completing deletion with orphans without kinds that do not respond; their objects are released later',
    )
  }

  /** Removes records whose kinds have all responded, and have no objects left that reference the owner. */
  async #clearRecords(): Promise<void> {
    const signal = this.#signal
    while (!signal.aborted) {
      await sleep(this.#clock, collectorDefaults.recordsMs, signal).catch(() => {})
      if (signal.aborted || !this.#servesRecords) continue
      try {
        for (const record of await this.#orphanRecords.list(signal)) {
          if (this.#isDone(record)) await this.#orphanRecords.remove(record, signal)
        }
      } catch (error) {
        if (!signal.aborted) this.#log.debug({ err: error }, 'failed to remove orphan records')
      }
    }
  }

  #isDone({ metadata, spec }: OrphanRecord): boolean {
    return (
      spec.kinds.every(resource => this.#views.get(resource)?.hasReached(metadata.version)) &&
      this.#graph.owner(this.#graph.keyOfReference(spec.owner, spec.owner.namespace)) === undefined
    )
  }

  /** An older server does not serve them; then there are no records. */
  get #servesRecords(): boolean {
    return this.#views.has(resourceOf(this.#orphanRecords.model))
  }

  /** Catches up all views that are behind, in rounds shared by all waiting work. */
  async #catchUpViews(): Promise<void> {
    if (this.#catchingUp) return
    this.#catchingUp = true
    while (this.#parked.size > 0 && !this.#signal.aborted) {
      const keys = [...this.#parked]
      this.#parked.clear()
      const behind = new Set<KindView>()
      for (const key of keys) {
        const [, subject] = splitAt(key, key.indexOf(' '))
        const node = this.#graph.node(...splitSubject(subject))
        if (node !== undefined) for (const view of this.#behind(node)) behind.add(view)
      }
      await Promise.all([...behind].map(view => view.catchUp()))
      for (const key of keys) this.#queue.add(key)
    }
    this.#catchingUp = false
  }

  /**
   * Breaks circles of objects that wait for each other in foreground deletion: dependents of this one that wait for it
   * no longer block it.
   */
  async #breakCircles(node: Node, signal: AbortSignal): Promise<void> {
    for (const dependent of this.#graph.circlesThrough(node)) {
      const model = this.#views.get(dependent.resource)?.model
      const live = model && (await readLive(this.#client, model, dependent.object, signal))
      if (model === undefined || live === undefined || live.metadata.uid !== dependent.uid) continue
      const references = (live.metadata.ownerReferences ?? []).map(reference =>
        this.#graph.keyOfReference(reference, dependent.namespace) === node.key
          ? { ...reference, blockOwnerDeletion: false }
          : reference,
      )
      await this.#putReferences(model, live, references, signal)
      this.#log.info(
        { resource: dependent.resource, object: dependent.object, owner: node.key },
        'broke a circle of objects that wait for each other',
      )
    }
  }
}

function isNamespaced({ scope }: Model): boolean {
  return scope === 'Namespaced'
}

/** Splits `<group>/<plural>/[<namespace>/]<name>`. */
function splitSubject(subject: string): [resource: string, object: ObjectKey] {
  return splitAt(subject, subject.indexOf('/', subject.indexOf('/') + 1))
}

function splitAt(text: string, at: number): [string, string] {
  return [text.slice(0, at), text.slice(at + 1)]
}
