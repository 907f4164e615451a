import { setTimeout as delay } from 'node:timers/promises'
import {
  type HostedPlugin,
  type Logger,
  type Manager,
  setupPlugin,
  type Transport,
} from '@setpoint/controller-runtime'
import { isReservedDomain } from '@setpoint/controller-runtime/api'
import type { LogFollower } from '../cache/index.ts'
import type { CustomRoutes } from '../http/custom-routes.ts'
import type { ModelRegistry } from '../model/model-registry.ts'
import { ServedModel } from '../model/served-model.ts'
import { type Registry, rebuildReservations } from '../registry/index.ts'
import { OutcomeUnknownError, type Storage, StoreUnavailableError } from '../storage/index.ts'
import { applyExtensions, type ExtensionProblem } from './extensions.ts'
import type { LoadedPlugin } from './load-plugin.ts'
import type { PluginStatus } from './plugin-kind.ts'
import type { PluginStatuses } from './plugin-status.ts'
import { RegistryWriter } from './registry-writer.ts'

export const runnerDefaults = Object.freeze({
  /** Milliseconds for a plugin's `setup`: it only registers things. */
  setupTimeoutMs: 30_000,
  /** Milliseconds between attempts while the store is away. */
  storeRetryMs: 500,
  /** Milliseconds between attempts at YAML documents that may go better later. */
  extensionsRetryMs: 5_000,
  /** Objects between two log lines about a cache that is being built. */
  progressObjects: 50_000,
  /** Problems of one kind that a status lists; the log has them all. */
  shownProblems: 20,
})

/** The parts of the server that plugins are put into. */
export interface PluginEnvironment {
  readonly storage: Storage
  readonly models: ModelRegistry
  readonly registry: Registry
  readonly follower: LogFollower
  readonly routes: CustomRoutes
  readonly transport: Transport
  /** Runs the controllers; absent where they run elsewhere. */
  readonly manager: Manager | undefined
  readonly statuses: PluginStatuses
  readonly reservedDomain: string
  readonly log: Logger
}

/** A plugin cannot be started because of what it declares. */
class PluginStartError extends Error {
  override readonly name = 'PluginStartError'
}

/**
 * One plugin in this server.
 *
 *     Starting ── models checked, setup run, indexes built ──▶ Started ── YAML applied, controllers run
 *        └────── any fault of the plugin ──▶ Failed: its kinds answer 503, the server goes on
 */
export class PluginRunner {
  readonly name: string
  readonly #loaded: LoadedPlugin
  readonly #environment: PluginEnvironment
  readonly #log: Logger
  readonly #stopped = new AbortController()
  readonly #models: ServedModel[] = []
  #hosted: HostedPlugin | undefined
  #status: PluginStatus
  #problems: { source: string; message: string }[] = []

  constructor(loaded: LoadedPlugin, environment: PluginEnvironment) {
    const { name, models } = loaded.plugin
    this.name = name
    this.#loaded = loaded
    this.#environment = environment
    this.#log = environment.log.child({ plugin: name })
    this.#status = {
      version: loaded.packageVersion,
      kinds: models.map(model => `${model.plural}.${model.group}`),
    }
  }

  /** Never rejects: what goes wrong is the plugin's status. Resolves when the plugin is started or has failed. */
  async start(): Promise<void> {
    this.#publish('Starting', 'its models are being checked and their indexes built')
    const { signal } = this.#stopped
    try {
      this.#registerModels()
      await this.#setup()
      await Promise.all(this.#models.map(served => this.#startModel(served)))
    } catch (error) {
      if (signal.aborted) return
      const message = error instanceof Error ? error.message : String(error)
      for (const served of this.#models)
        served.phase = { name: 'Failed', message: `plugin ${this.name} has failed: ${message}` }
      this.#environment.routes.remove(this.name)
      await this.#hosted?.stop()
      this.#log.error({ err: error }, 'the plugin has failed')
      this.#publish('Failed', message)
      return
    }
    this.#publish('Started', 'its kinds are served')
    this.#log.info({ kinds: this.#status.kinds }, 'the plugin has started')
    for (const controller of this.#hosted?.controllers ?? []) this.#environment.manager?.add(controller)
    await this.#applyExtensions()
  }

  async stop(): Promise<void> {
    this.#stopped.abort()
    await this.#hosted?.stop()
  }

  /** @throws PluginStartError, ModelConflictError or ModelError saying which declaration is wrong. */
  #registerModels(): void {
    const { models, reservedDomain, routes } = this.#environment
    for (const model of this.#loaded.plugin.models) {
      if (isReservedDomain(model.group, reservedDomain)) {
        const group = model.group === '' ? 'the empty group' : `the group ${JSON.stringify(model.group)}`
        throw new PluginStartError(
          `the kind ${model.kind} uses ${group}, which is reserved for the service (${reservedDomain})`,
        )
      }
      const clash = routes.clashWith(model.apiVersion, model.plural, model.kind)
      if (clash !== undefined) throw new PluginStartError(clash)
      const served = new ServedModel(model, this.name)
      models.add(served)
      this.#models.push(served)
    }
  }

  async #setup(): Promise<void> {
    const { transport, log, routes } = this.#environment
    const timeout = AbortSignal.timeout(runnerDefaults.setupTimeoutMs)
    const late = new Promise<never>((_, reject) => {
      timeout.addEventListener('abort', () =>
        reject(
          new PluginStartError(
            `setup has not finished after ${runnerDefaults.setupTimeoutMs / 1000} seconds`,
          ),
        ),
      )
    })
    const hosted = await Promise.race([setupPlugin(this.#loaded.plugin, { transport, log }), late])
    this.#hosted = hosted
    for (const name of hosted.unmarkedClasses) {
      this.#problems.push({
        source: `class ${name}`,
        message: 'it is not marked with ApiVersion and is not exposed',
      })
    }
    routes.add(hosted)
  }

  /** Puts the model's unique indexes in force and builds its cache. Waits as long as the store is away. */
  async #startModel(served: ServedModel): Promise<void> {
    const { registry, storage, follower } = this.#environment
    const { signal } = this.#stopped
    const { changed } = await this.#untilStoreAnswers(() => registry.records.establish(served))
    if (changed) {
      this.#log.info(
        { resource: served.resource },
        'the unique indexes have changed, what objects hold is computed again',
      )
      const clashes = await this.#untilStoreAnswers(() => rebuildReservations(storage, served, signal))
      for (const { index, value, name, holder } of clashes) {
        this.#problems.push({
          source: `index ${index} of ${served.resource}`,
          message: `${JSON.stringify(name)} has the value ${JSON.stringify(value)}, which ${JSON.stringify(holder)} holds`,
        })
      }
    }
    let objects = 0
    let reported = 0
    const cache = await follower.add(served, signal, count => {
      objects += count
      if (objects - reported < runnerDefaults.progressObjects) return
      reported = objects
      this.#log.info({ resource: served.resource, objects }, 'the indexes are being built')
    })
    for (const [name, problems] of cache.problems) {
      for (const { index, message } of problems) {
        this.#problems.push({
          source: `index ${index} of ${served.resource}`,
          message: `cannot handle ${JSON.stringify(name)}: ${message}`,
        })
      }
    }
    served.phase = { name: 'Started' }
  }

  /** Tries again what failed because the store is away; a fault of anything else is thrown. */
  async #untilStoreAnswers<T>(attempt: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await attempt()
      } catch (error) {
        this.#stopped.signal.throwIfAborted()
        if (!(error instanceof StoreUnavailableError || error instanceof OutcomeUnknownError)) throw error
        await delay(runnerDefaults.storeRetryMs, undefined, { signal: this.#stopped.signal })
      }
    }
  }

  async #applyExtensions(): Promise<void> {
    const { resourcesDir, packageVersion, plugin } = this.#loaded
    if (resourcesDir === undefined) return
    const { models, registry, reservedDomain } = this.#environment
    const writer = new RegistryWriter(models, registry)
    const known = [...this.#problems]
    for (;;) {
      const result = await applyExtensions({
        resourcesDir,
        plugin: plugin.name,
        version: packageVersion,
        reservedDomain,
        writer,
      })
      this.#log.info(
        { applied: result.applied, unchanged: result.unchanged, problems: result.problems.length },
        'the shipped objects are applied',
      )
      for (const problem of result.problems)
        this.#log.warn({ ...problem }, 'a shipped object was not applied')
      this.#problems = [...known, ...result.problems.map(describeProblem)]
      this.#publish('Started', 'its kinds are served')
      if (!result.problems.some(problem => problem.transient)) return
      try {
        await delay(runnerDefaults.extensionsRetryMs, undefined, { signal: this.#stopped.signal, ref: false })
      } catch {
        return
      }
    }
  }

  #publish(phase: 'Starting' | 'Started' | 'Failed', message: string): void {
    const ready = { Starting: 'Unknown', Started: 'True', Failed: 'False' } as const
    const [previous] = this.#status.conditions ?? []
    const lastTransitionTime =
      previous?.status === ready[phase] ? previous.lastTransitionTime : new Date().toISOString()
    const problems = this.#problems.slice(0, runnerDefaults.shownProblems)
    if (this.#problems.length > problems.length) {
      problems.push({
        source: 'more',
        message: `${this.#problems.length - problems.length} further problems are in the log`,
      })
    }
    this.#status = {
      ...this.#status,
      phase,
      message,
      conditions: [{ type: 'Ready', status: ready[phase], reason: phase, message, lastTransitionTime }],
      problems,
    }
    this.#environment.statuses.publish(this.name, this.#status)
  }
}

function describeProblem({ file, line, message }: ExtensionProblem): { source: string; message: string } {
  return { source: `${file}:${line}`, message }
}
