import { createHash } from 'node:crypto'
import { type Clock, sleep, systemClock } from '@setpoint/controller-runtime'
import { errorMessage } from '@setpoint/controller-runtime/api'
import type { CacheEvent, Entry, LogFollower, ModelCache, ReadGate } from '../cache/index.ts'
import type { CustomRoutes } from '../http/index.ts'
import type { Logger } from '../log/index.ts'
import { ModelConflictError, type ModelRegistry, type ServedModel } from '../model/index.ts'
import { type Registry, ScopeChangedError, serviceWriteOptions } from '../registry/index.ts'
import type { Storage } from '../storage/index.ts'
import type { WatchHub } from '../watch/index.ts'
import {
  ConversionMemory,
  type ConversionObserver,
  type ConverterParts,
  converterOf,
} from './conversion/index.ts'
import { readIndexes } from './defined-indexes.ts'
import { DefinedKindRunner } from './defined-kind-runner.ts'
import { definedModel, withoutRules } from './defined-model.ts'
import { cleanUp, ignoreRaces } from './definition-cleanup.ts'
import { claimsOf, decideNames, type NameClaims, type NamesDecision } from './definition-names.ts'
import {
  approvalConditions,
  indexConditions,
  namingConditions,
  presentConditions,
  statusWith,
  withConditions,
} from './definition-status.ts'
import { hasCondition, readDefinition, type StoredDefinition } from './stored-definition.ts'

export const definitionsDefaults = Object.freeze({
  /** Milliseconds that a request for an unknown kind waits for definitions to be served. */
  settleMs: 5_000,
  /** Milliseconds until a definition is looked at again that waits for plugins to start. */
  startingMs: 100,
  /** The same for a definition that could not be served, and for one whose objects wait for finalizers. */
  againMs: 10_000,
})

interface DefinitionsParts {
  /** The kind CustomResourceDefinition, which must be served. */
  readonly kind: ServedModel
  readonly models: ModelRegistry
  readonly routes: Pick<CustomRoutes, 'clashWith'>
  readonly storage: Storage
  readonly registry: Registry
  /** The writes of the server itself. */
  readonly writes: Pick<Registry, 'patch' | 'delete'>
  readonly follower: LogFollower
  readonly gate: Pick<ReadGate, 'pass'>
  readonly hub: WatchHub
  /** What converts objects calls webhooks. */
  readonly webhooks: Pick<ConverterParts, 'client' | 'services'>
  readonly log: Logger
  /** Returns true while plugins may still add kinds. Only definitions whose names were accepted before are served then. */
  readonly isStarting: () => boolean
  readonly clock?: Clock
}

/** One definition in this server. */
interface Entered {
  readonly runner: DefinedKindRunner
  /** The definition that `runner` was last given; its uid tells a new one of the same name. */
  uid: string | undefined
  /** The kind of the definition as it is. Rejects for a schema that cannot be compiled. */
  compiling: Promise<ServedModel> | undefined
  /** Set while steps are under way. Resolves when they are done. */
  working: Promise<void> | undefined
  /** True if the definition, or what it depends on, has changed since the last step began. */
  isChanged: boolean
  /** True if it is looked at again in a while. */
  isAsleep: boolean
  /** Stops waiting for the last object to go. */
  stopWaiting: () => void
  /** True if its names cannot be decided because plugins are starting. */
  waitsForPlugins: boolean
  /** True if it is not served because somebody else has one of its names or paths. */
  waitsForName: boolean
}

/**
 * Serves the kinds of CustomResourceDefinitions. Follows the cache of the definitions, and brings each kind to what its
 * definition says, one step at a time:
 *
 *     changed ─▶ decide the names ─▶ serve the kind ─▶ write the status
 *                                         │ the definition is being deleted
 *                                         └─▶ delete its objects ─▶ take the finalizer away
 *
 * Guarantees: a definition is `Established` only after a server has served its kind. A request to any server that begins
 * later finds the kind there (`settled`). No definition waits for another.
 */
export class Definitions {
  readonly kind: ServedModel
  readonly #parts: DefinitionsParts
  readonly #clock: Clock
  readonly #entered = new Map<string, Entered>()
  readonly #claimsOf = new WeakMap<Entry, NameClaims>()
  readonly #stopped = new AbortController()
  readonly #memory = new ConversionMemory()
  #observer: ConversionObserver | undefined
  #cache: ModelCache | undefined

  constructor(parts: DefinitionsParts) {
    this.kind = parts.kind
    this.#parts = parts
    this.#clock = parts.clock ?? systemClock
  }

  /** Tells `observer` of each request to a webhook for conversion from now on. */
  observe(observer: ConversionObserver): void {
    this.#observer = observer
  }

  /** Follows the definitions until the signal is aborted. Resolves when those that exist are served, or cannot be. */
  async start(signal: AbortSignal): Promise<void> {
    const cache = this.#parts.follower.cacheOf(this.kind)
    if (cache === undefined) throw new Error(`${this.kind.title} has no cache`)
    this.#cache = cache
    const stops = [
      cache.observe({
        changed: ({ next, previous }: CacheEvent) => this.#touch((next ?? previous)?.name),
        reset: () => this.#touchAll(),
      }),
      this.#parts.models.observe(() => this.#touchRefused()),
    ]
    const stop = () => {
      for (const each of stops) each()
      this.#stopped.abort()
      for (const { runner } of this.#entered.values()) runner.abort()
    }
    if (signal.aborted) stop()
    signal.addEventListener('abort', stop, { once: true })
    this.#touchAll()
    await this.#idle()
  }

  /**
   * Resolves when this server serves the kind of a definition as any server did before the call, and when nothing more can be
   * done for it now. Definitions do not wait for each other.
   * @param name default: all definitions
   * @throws ApiError 503 if the definitions cannot be read now
   */
  async settled(name?: string): Promise<void> {
    await this.#parts.gate.pass()
    if (name !== undefined && !this.#isUnderWay(name)) return
    const timer = new AbortController()
    const limit = sleep(this.#clock, definitionsDefaults.settleMs, timer.signal).catch(() => {})
    await Promise.race([name === undefined ? this.#idle() : this.#settles(name, timer.signal), limit])
    timer.abort()
  }

  async #settles(name: string, signal: AbortSignal): Promise<void> {
    while (this.#isUnderWay(name) && !signal.aborted) {
      await this.#entered.get(name)?.working
      if (this.#entered.get(name)?.waitsForPlugins)
        await sleep(this.#clock, definitionsDefaults.startingMs, signal).catch(() => {})
    }
  }

  #isUnderWay(name: string): boolean {
    const entered = this.#entered.get(name)
    return entered?.working !== undefined || entered?.waitsForPlugins === true
  }

  /**
   * Returns the kind of a definition that writes depend on, for a write that the record of its kind has refused. Another server
   * may have put it in force. If this server has served it all along, it is put in force again: another server may have
   * stopped before it knew of the last change.
   * @throws ApiError 503 if the definitions cannot be read now
   */
  async successorOf(served: ServedModel): Promise<ServedModel | undefined> {
    if (served.next !== undefined) return served.next
    const { defined } = served
    if (defined === undefined) return undefined
    await this.#parts.gate.pass()
    const entered = this.#entered.get(defined.definition)
    if (entered?.isChanged) await this.settled(defined.definition)
    if (entered === undefined || entered.isChanged) return undefined
    const newest = await entered.compiling?.catch(() => undefined)
    if (newest === served) await entered.runner.claimAgain()
    return newest
  }

  /** Waits for the steps that are under way. */
  async #idle(): Promise<void> {
    await Promise.all([...this.#entered.values()].map(({ working }) => working))
  }

  #touchAll(): void {
    const names = new Set(this.#entered.keys())
    this.#cache?.store.snapshot().objects.forEachValue(({ name }: Entry) => {
      names.add(name)
    })
    for (const name of names) this.#touch(name)
  }

  /** A name may be free now, or taken. */
  #touchRefused(): void {
    for (const [name, { waitsForName }] of this.#entered) if (waitsForName) this.#touch(name)
  }

  #touch(name: string | undefined): void {
    if (name === undefined || this.#stopped.signal.aborted) return
    const entered = this.#entered.get(name) ?? this.#enter(name)
    entered.isChanged = true
    entered.working ??= this.#work(name, entered)
  }

  #enter(name: string): Entered {
    const { models, routes, storage, registry, follower, hub, log } = this.#parts
    const changed = () => this.#touch(name)
    const runner = new DefinedKindRunner({ models, routes, storage, registry, follower, hub, log, changed })
    const entered: Entered = {
      runner,
      uid: undefined,
      compiling: undefined,
      working: undefined,
      isChanged: false,
      waitsForPlugins: false,
      waitsForName: false,
      isAsleep: false,
      stopWaiting: () => {},
    }
    this.#entered.set(name, entered)
    return entered
  }

  /** Takes steps until nothing has changed. Never rejects. */
  async #work(name: string, entered: Entered): Promise<void> {
    const { log } = this.#parts
    while (entered.isChanged && !this.#stopped.signal.aborted) {
      entered.isChanged = false
      try {
        await this.#step(name, entered)
      } catch (error) {
        if (this.#stopped.signal.aborted) return
        log.warn({ definition: name, err: error }, 'failed to serve a definition, retrying')
        this.#again(name, entered, definitionsDefaults.againMs)
      }
    }
    // In the turn in which nothing had changed: a change that comes later begins anew.
    entered.working = undefined
  }

  #again(name: string, entered: Entered, afterMs: number): void {
    if (entered.isAsleep) return
    entered.isAsleep = true
    const { signal } = this.#stopped
    void sleep(this.#clock, afterMs, signal).then(
      () => {
        entered.isAsleep = false
        this.#touch(name)
      },
      () => {},
    )
  }

  async #step(name: string, entered: Entered): Promise<void> {
    const { runner } = entered
    const definition = this.#read(name)
    if (definition === undefined || (entered.uid !== undefined && definition.uid !== entered.uid)) {
      runner.stop()
      entered.uid = undefined
      entered.compiling = undefined
      if (definition === undefined) this.#leave(name)
    }
    if (definition === undefined) return
    entered.uid = definition.uid
    const { models, isStarting } = this.#parts
    // A plugin that had a name before the restart has it still.
    entered.waitsForPlugins = definition.acceptedNames.plural === '' && !definition.isDeleting && isStarting()
    if (entered.waitsForPlugins) {
      this.#again(name, entered, definitionsDefaults.startingMs)
      return
    }
    const decision = decideNames(definition, this.#claims(), models.all())
    entered.waitsForName = decision.conflict !== undefined
    const problem = await this.#serve(definition, decision, entered)
    if (definition.isDeleting) {
      await this.#cleanUp(definition, entered)
      return
    }
    await this.#tell(definition, decision, runner, problem)
  }

  /** Forgets a definition that was deleted, and lets others have its names. */
  #leave(name: string): void {
    this.#entered.delete(name)
    this.#touchRefused()
  }

  /** Brings the kind to what its definition says. Returns the reason if it cannot be served. */
  async #serve(
    definition: StoredDefinition,
    { accepted, conflict }: NamesDecision,
    entered: Entered,
  ): Promise<string | undefined> {
    const { runner } = entered
    const isEstablished = hasCondition(definition, 'Established')
    if (conflict !== undefined && !isEstablished) {
      runner.stop()
      return undefined
    }
    const { uid, group, versions, isNamespaced, conversion } = definition
    try {
      const indexes = readIndexes(definition)
      const form = hashOf([uid, group, accepted, versions, isNamespaced, conversion, indexes])
      if (runner.serves(form)) return undefined
      const { webhooks, log } = this.#parts
      const observe: ConversionObserver = (...call) => this.#observer?.(...call)
      const converter = converterOf(definition, { ...webhooks, memory: this.#memory, log, observe })
      entered.compiling = definedModel(definition, accepted, indexes, converter)
      await runner.serve(form, await entered.compiling, isEstablished)
      return undefined
    } catch (error) {
      if (this.#stopped.signal.aborted) throw error
      this.#parts.log.error({ definition: definition.name, err: error }, 'a definition cannot be served')
      if (error instanceof ModelConflictError) entered.waitsForName = true
      else if (isEstablished)
        runner.fail(await definedModel(withoutRules(definition), accepted, []), errorMessage(error))
      // Objects that were stored under another scope may be gone later.
      if (error instanceof ScopeChangedError)
        this.#again(definition.name, entered, definitionsDefaults.againMs)
      return errorMessage(error)
    }
  }

  async #cleanUp(definition: StoredDefinition, entered: Entered): Promise<void> {
    const { kind, registry, writes, storage, follower } = this.#parts
    const { name } = definition
    const { served } = entered.runner
    const cache = served && follower.cacheOf(served)
    entered.stopWaiting()
    if (cache !== undefined)
      entered.stopWaiting = cache.observe({
        changed: () => {
          if (cache.store.size === 0) this.#touch(name)
        },
        reset: () => this.#touch(name),
      })
    const parts = { definitions: kind, registry, writes, storage, now: () => this.#clock.now() }
    if (await cleanUp(parts, definition, served, this.#stopped.signal)) return
    this.#again(name, entered, definitionsDefaults.againMs)
  }

  async #tell(
    definition: StoredDefinition,
    decision: NamesDecision,
    { served, findings }: DefinedKindRunner,
    problem: string | undefined,
  ): Promise<void> {
    const { name, uid, resourceVersion } = definition
    const isServed =
      hasCondition(definition, 'Established') || (served !== undefined && problem === undefined)
    const next = withConditions(
      presentConditions(definition),
      [
        ...approvalConditions(definition),
        ...namingConditions(decision, { isServed, problem }),
        ...indexConditions(definition, findings),
      ],
      this.#clock.now(),
    )
    const status = statusWith(definition, decision, next)
    if (JSON.stringify(status) === JSON.stringify(definition.status)) return
    const document = { metadata: { uid, resourceVersion }, status }
    await this.#parts.writes
      .patch(this.kind, name, { type: 'merge', document }, 'status', serviceWriteOptions)
      .catch(ignoreRaces)
  }

  #read(name: string): StoredDefinition | undefined {
    const entry = this.#cache?.store.get(name)
    return entry && readDefinition(entry.bytes)
  }

  /** What all definitions claim. Each is read once, because they are large. */
  #claims(): NameClaims[] {
    const all: NameClaims[] = []
    this.#cache?.store.snapshot().objects.forEachValue((entry: Entry) => {
      const claims = this.#claimsOf.get(entry) ?? claimsOf(readDefinition(entry.bytes))
      this.#claimsOf.set(entry, claims)
      all.push(claims)
    })
    return all
  }
}

/** The parts are too large to be kept for a comparison. */
function hashOf(parts: readonly unknown[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('base64')
}
