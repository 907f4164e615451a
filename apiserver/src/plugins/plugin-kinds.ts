import { isDeepStrictEqual } from 'node:util'
import type { Logger } from '@setpoint/controller-runtime'
import { isReservedGroup, type Model, ModelError } from '@setpoint/controller-runtime/api'
import type { HostedPlugin } from '@setpoint/controller-runtime/internal'
import { ServedModel } from '../model/index.ts'
import type { Actor } from './actor.ts'
import { AdmitReads } from './admit-reads.ts'
import { KindRunner } from './kind-runner.ts'
import type { LoadedPlugin } from './load-plugin.ts'
import type { PluginEnvironment } from './plugin-environment.ts'
import { PluginStartError } from './set-up.ts'

interface PluginKindsParts {
  readonly plugin: string
  readonly environment: Pick<
    PluginEnvironment,
    'models' | 'routes' | 'reservedDomain' | 'storage' | 'registry' | 'follower' | 'hub'
  > & { actorOf(plugin: string): Actor }
  readonly log: Logger
  /** Called after the status of a kind may have changed. */
  readonly changed: () => void
}

/** The kinds of one plugin that are registered in this server, also while they are not served. */
export class PluginKinds {
  readonly #parts: PluginKindsParts
  #all: readonly KindRunner[] = []

  constructor(parts: PluginKindsParts) {
    this.#parts = parts
  }

  get all(): readonly KindRunner[] {
    return this.#all
  }

  /**
   * Registers the kinds of a plugin that does not run in place of the present ones. Also those with a refused schema,
   * so that the kinds of a failed plugin respond with 503 and the reason. Returns the first error.
   */
  register({ plugin, packageVersion }: LoadedPlugin): Error | undefined {
    for (const { served } of this.#all) this.#parts.environment.models.remove(served)
    const kinds: KindRunner[] = []
    let first: Error | undefined
    const register = (model: Model): unknown => {
      try {
        const kind = this.#declare(model, packageVersion)
        this.#mount(kind)
        kinds.push(kind)
        return undefined
      } catch (error) {
        first ??= error instanceof Error ? error : new Error(String(error))
        return error
      }
    }
    for (const model of plugin.models) {
      const error = register(model)
      if (error instanceof PluginStartError && error.cause instanceof ModelError)
        register(withoutRules(model))
    }
    this.#all = kinds
    return first
  }

  /**
   * Leaves kinds to definitions that had their names before this server started. Returns an error that names one of
   * them.
   */
  leaveTaken(): Error | undefined {
    const { models } = this.#parts.environment
    const taken = this.#all.filter(({ served }) => !models.has(served))
    this.#all = this.#all.filter(kind => !taken.includes(kind))
    return taken.map(({ served }) => models.conflictOf(served)).find(conflict => conflict !== undefined)
  }

  /**
   * Replaces the kinds and routes by those of reloaded code: all or nothing. Served kinds whose declaration is the same
   * stay as they are. The others are built before, while the present ones are served. If `signal` is aborted meanwhile,
   * they are replaced without being built, and the next `start` builds them.
   * @throws PluginStartError, ModelConflictError or RouteConflictError that names the wrong declaration;
   *   UnreadableVersionError, ScopeChangedError
   */
  async replace(
    next: LoadedPlugin,
    from: HostedPlugin,
    to: HostedPlugin,
    signal: AbortSignal,
  ): Promise<void> {
    const kinds = next.plugin.models.map(
      model =>
        this.#all.find(({ served }) => isServedUnchanged(served, model)) ??
        this.#declare(model, next.packageVersion),
    )
    const added = kinds.filter(kind => !this.#all.includes(kind))
    const dropped = this.#all.filter(kind => !kinds.includes(kind))
    // Finds wrong declarations, which must not claim indexes in the store.
    this.#exchange(dropped, added, from, to)
    this.#exchange(added, dropped, to, from)
    const why = `plugin ${this.#parts.plugin} is being reloaded`
    try {
      await buildAll(added, signal)
      // Throws if another plugin has taken a name meanwhile.
      this.#exchange(dropped, added, from, to)
    } catch (error) {
      for (const kind of added) kind.stop(why)
      throw error
    }
    this.#all = kinds
    for (const kind of added) kind.serveIfBuilt()
    for (const kind of dropped) kind.stop(why)
  }

  /** Starts the kinds that are not served. Waits while the store is unavailable. @throws when stopped */
  async start(): Promise<void> {
    const starting = this.#all.filter(({ served }) => served.phase.name === 'Starting')
    await Promise.all(starting.map(kind => kind.start()))
  }

  /** Stops the kinds, which respond with 503 and `why` from then on. */
  stop(why: string): void {
    for (const kind of this.#all) kind.stop(why)
  }

  /** Stops the work in the background, when the server stops. */
  abort(): void {
    for (const kind of this.#all) kind.abort()
  }

  /** @throws PluginStartError that names the wrong declaration */
  #declare(model: Model, pluginVersion: string | undefined): KindRunner {
    const { environment, log, changed } = this.#parts
    const { reservedDomain, storage, registry, follower, hub } = environment
    if (isReservedGroup(model.group, reservedDomain)) {
      const group = model.group === '' ? 'the empty group' : `the group ${JSON.stringify(model.group)}`
      throw new PluginStartError(
        `the kind ${model.kind} uses ${group}, which is reserved for the service (${reservedDomain}, k8s.io); use a sub-domain of your own`,
      )
    }
    const served = this.#compile(model)
    return new KindRunner({ served, pluginVersion, storage, registry, follower, hub, log, changed })
  }

  /** @throws PluginStartError or ModelConflictError if another kind or a route has a path of this one */
  #mount({ served }: KindRunner): void {
    const { models, routes } = this.#parts.environment
    for (const { apiVersion } of served.versions) {
      const clash = routes.clashWith(apiVersion, served.model)
      if (clash !== undefined) throw new PluginStartError(clash)
    }
    models.add(served)
  }

  /** Registers kinds and routes in place of others: all or nothing. @throws as `replace` */
  #exchange(
    dropped: readonly KindRunner[],
    added: readonly KindRunner[],
    from: HostedPlugin,
    to: HostedPlugin,
  ): void {
    const { models, routes } = this.#parts.environment
    for (const { served } of dropped) models.remove(served)
    routes.remove(from)
    try {
      for (const kind of added) this.#mount(kind)
      routes.add(to)
    } catch (error) {
      for (const { served } of added) models.remove(served)
      for (const { served } of dropped) models.add(served)
      routes.add(from)
      throw error
    }
  }

  /** @throws PluginStartError that names the kind with an unusable schema */
  #compile(model: Model): ServedModel {
    const { plugin, environment } = this.#parts
    const { models, follower } = environment
    const actor = environment.actorOf(plugin)
    try {
      return new ServedModel(model, plugin, { listerOf: () => new AdmitReads({ models, follower, actor }) })
    } catch (error) {
      if (!(error instanceof ModelError)) throw error
      throw new PluginStartError(`the kind ${model.kind}: ${error.message}`, { cause: error })
    }
  }
}

/**
 * Builds kinds while others are served under the same names. Checks all of them first, because a claim in the store
 * cannot be taken back. Returns early if `signal` is aborted. @throws the first reason why one cannot be built
 */
async function buildAll(kinds: readonly KindRunner[], signal: AbortSignal): Promise<void> {
  const abort = () => {
    for (const kind of kinds) kind.abort()
  }
  if (signal.aborted) abort()
  signal.addEventListener('abort', abort, { once: true })
  try {
    await allSettled(kinds.map(kind => kind.check()))
    await allSettled(kinds.map(kind => kind.build()))
  } catch (error) {
    if (!signal.aborted) throw error
  } finally {
    signal.removeEventListener('abort', abort)
  }
}

/** Resolves or rejects when all have settled. @throws the reason of the first that has failed */
async function allSettled(promises: readonly Promise<void>[]): Promise<void> {
  for (const each of await Promise.allSettled(promises)) if (each.status === 'rejected') throw each.reason
}

/** Returns the model with schemas that allow everything. */
function withoutRules(model: Model): Model {
  const schema = { spec: {} }
  return { ...model, schema, versions: model.versions.map(version => ({ ...version, schema })) }
}

/**
 * Returns true if a kind is served by the same declaration. Functions of another instance of a module are different.
 */
function isServedUnchanged(served: ServedModel, model: Model): boolean {
  return served.phase.name === 'Started' && isDeepStrictEqual(served.model, model)
}
