import { isDeepStrictEqual } from 'node:util'
import type { Logger } from '@setpoint/controller-runtime'
import { isReservedGroup, type Model, ModelError } from '@setpoint/controller-runtime/api'
import type { HostedPlugin } from '@setpoint/controller-runtime/internal'
import { ServedModel } from '../model/index.ts'
import { KindRunner } from './kind-runner.ts'
import type { LoadedPlugin } from './load-plugin.ts'
import type { PluginEnvironment } from './plugin-environment.ts'
import { PluginStartError } from './set-up.ts'

interface PluginKindsParts {
  readonly plugin: string
  readonly environment: Pick<
    PluginEnvironment,
    'models' | 'routes' | 'reservedDomain' | 'storage' | 'registry' | 'follower' | 'hub'
  >
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
   * Registers the kinds of a plugin that does not run in place of the present ones. Also those with a refused schema, so that
   * the kinds of a failed plugin respond with 503 and the reason. Returns the first error.
   */
  register({ plugin, packageVersion }: LoadedPlugin): Error | undefined {
    for (const { served } of this.#all) this.#parts.environment.models.remove(served)
    const kinds: KindRunner[] = []
    let first: Error | undefined
    for (const model of plugin.models) {
      try {
        kinds.push(this.#add(model, packageVersion))
      } catch (error) {
        first ??= error instanceof Error ? error : new Error(String(error))
        if (error instanceof PluginStartError && error.cause instanceof ModelError)
          kinds.push(this.#add(withoutRules(model), packageVersion))
      }
    }
    this.#all = kinds
    return first
  }

  /**
   * Registers the kinds and routes of reloaded code in place of the present ones: all or nothing. Served kinds whose
   * declaration is the same stay as they are.
   * @throws PluginStartError, ModelConflictError or RouteConflictError that names the wrong declaration
   */
  replace({ plugin, packageVersion }: LoadedPlugin, from: HostedPlugin, to: HostedPlugin): void {
    const { models, routes } = this.#parts.environment
    const sameAs = (model: Model) => this.#all.find(({ served }) => isServedUnchanged(served, model))
    const kept = new Set(plugin.models.map(sameAs))
    const dropped = this.#all.filter(kind => !kept.has(kind))
    const added: KindRunner[] = []
    for (const { served } of dropped) models.remove(served)
    routes.remove(from)
    try {
      const kinds = plugin.models.map(model => {
        const same = sameAs(model)
        if (same !== undefined) return same
        const kind = this.#add(model, packageVersion)
        added.push(kind)
        return kind
      })
      routes.add(to)
      this.#all = kinds
    } catch (error) {
      for (const { served } of added) models.remove(served)
      for (const { served } of dropped) models.add(served)
      routes.add(from)
      throw error
    }
    for (const kind of dropped) kind.stop(`plugin ${this.#parts.plugin} is being reloaded`)
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

  /** @throws PluginStartError or ModelConflictError that names the wrong declaration */
  #add(model: Model, pluginVersion: string | undefined): KindRunner {
    const { environment, log, changed } = this.#parts
    const { models, reservedDomain, routes, storage, registry, follower, hub } = environment
    if (isReservedGroup(model.group, reservedDomain)) {
      const group = model.group === '' ? 'the empty group' : `the group ${JSON.stringify(model.group)}`
      throw new PluginStartError(
        `the kind ${model.kind} uses ${group}, which is reserved for the service (${reservedDomain}, k8s.io); use a sub-domain of your own`,
      )
    }
    const served = this.#compile(model)
    for (const { apiVersion } of served.versions) {
      const clash = routes.clashWith(apiVersion, model)
      if (clash !== undefined) throw new PluginStartError(clash)
    }
    models.add(served)
    return new KindRunner({ served, pluginVersion, storage, registry, follower, hub, log, changed })
  }

  /** @throws PluginStartError that names the kind with an unusable schema */
  #compile(model: Model): ServedModel {
    try {
      return new ServedModel(model, this.#parts.plugin)
    } catch (error) {
      if (!(error instanceof ModelError)) throw error
      throw new PluginStartError(`the kind ${model.kind}: ${error.message}`, { cause: error })
    }
  }
}

/** Returns the model with schemas that allow everything. */
function withoutRules(model: Model): Model {
  const schema = { spec: {} }
  return { ...model, schema, versions: model.versions.map(version => ({ ...version, schema })) }
}

/** Returns true if a kind is served by the same declaration. Functions of another instance of a module are different. */
function isServedUnchanged(served: ServedModel, model: Model): boolean {
  return served.phase.name === 'Started' && isDeepStrictEqual(served.model, model)
}
