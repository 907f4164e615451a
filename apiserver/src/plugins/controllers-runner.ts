import type { Logger, Manager, Transport } from '@setpoint/controller-runtime'
import type { HostedPlugin } from '@setpoint/controller-runtime/internal'
import type { LoadedPlugin } from './load-plugin.ts'
import type { CodeLoader } from './plugin-source.ts'
import type { PluginSpec, PluginSpecs } from './plugin-specs.ts'
import type { PluginLifecycle, ReloadOutcome } from './plugins.ts'
import { type PluginSettings, redactedMessageOf, setUp } from './set-up.ts'

/** What plugins use in a process that only runs controllers. */
interface ControllersEnvironment {
  readonly transport: Transport
  readonly manager: Manager
  readonly specs: Pick<PluginSpecs, 'get' | 'current'>
  readonly settings: PluginSettings
  readonly log: Logger
}

/** The controllers of one plugin in a process without models, routes and YAML. Its faults go to the log. */
export class ControllersRunner implements PluginLifecycle {
  readonly name: string
  readonly #loader: CodeLoader
  readonly #environment: ControllersEnvironment
  #loaded: LoadedPlugin
  #hosted: HostedPlugin | undefined
  /** The spec that is in effect. */
  #applied: PluginSpec | undefined
  #transitions: Promise<unknown> = Promise.resolve()
  #stopped = false

  constructor(loader: CodeLoader, loaded: LoadedPlugin, environment: ControllersEnvironment) {
    this.name = loaded.plugin.name
    this.#loader = loader
    this.#loaded = loaded
    this.#environment = environment
  }

  get isRegistered(): boolean {
    return this.#applied !== undefined
  }

  get isAwaited(): boolean {
    return !this.isRegistered
  }

  get progress(): string {
    if (this.#applied === undefined) return 'starting'
    if (!this.#applied.enabled) return 'disabled'
    return this.#hosted === undefined ? 'failed' : 'ok'
  }

  /** Starts the controllers if the plugin is enabled. Waits until the server says so. */
  start(): Promise<void> {
    return this.#next(async () => {
      const spec = await this.#environment.specs.get(this.name).catch(() => undefined)
      // The process stops.
      if (spec === undefined) return
      this.#applied = spec
      if (spec.enabled) await this.#begin()
    })
  }

  follow(): Promise<void> {
    return this.#next(async () => {
      const applied = this.#applied
      if (applied === undefined) return
      const wanted = this.#environment.specs.current(this.name)
      this.#applied = wanted
      if (!wanted.enabled && applied.enabled) {
        await this.#end()
        this.#log.info({}, 'the plugin is disabled')
      }
      if (wanted.reload !== applied.reload) await this.#reload()
      if (wanted.enabled && this.#hosted === undefined && !applied.enabled) await this.#begin()
    })
  }

  reload(): Promise<ReloadOutcome> {
    return this.#next(() => this.#reload())
  }

  /** The manager stops the controllers. */
  async stop(): Promise<void> {
    this.#stopped = true
    await this.#hosted?.stop()
  }

  get #log(): Logger {
    return this.#environment.log.child({ plugin: this.name })
  }

  #next<T>(transition: () => Promise<T>): Promise<T> {
    const done = this.#transitions.then(transition)
    this.#transitions = done.catch(() => {})
    return done
  }

  async #begin(): Promise<void> {
    try {
      this.#run(await this.#setUp(this.#loaded))
    } catch (error) {
      if (!this.#stopped) this.#log.error({ dir: this.#loaded.dir, err: error }, 'failed to start a plugin')
    }
  }

  async #reload(): Promise<ReloadOutcome> {
    try {
      const next = await this.#loader.load()
      const { name } = next.plugin
      if (name !== this.name)
        throw new Error(`its name has changed to ${JSON.stringify(name)}: restart the process`)
      const hosted = this.#applied?.enabled === true ? await this.#setUp(next) : undefined
      this.#loaded = next
      await this.#end()
      if (hosted !== undefined) this.#run(hosted)
      this.#log.info({ version: next.packageVersion }, 'reloaded the code of the plugin')
      return { reloaded: true }
    } catch (error) {
      this.#log.error({ err: error }, 'failed to reload the plugin')
      return { reloaded: false, message: redactedMessageOf(error) }
    }
  }

  #setUp(loaded: LoadedPlugin): Promise<HostedPlugin> {
    const { transport, log, manager, settings } = this.#environment
    return setUp(loaded, settings, { transport, log, builtFor: manager })
  }

  #run(hosted: HostedPlugin): void {
    if (this.#stopped) {
      void hosted.stop()
      return
    }
    this.#hosted = hosted
    for (const added of [...hosted.controllers, ...hosted.runnables]) this.#environment.manager.add(added)
  }

  async #end(): Promise<void> {
    const hosted = this.#hosted
    this.#hosted = undefined
    if (hosted === undefined) return
    const { manager } = this.#environment
    const added = [...hosted.controllers, ...hosted.runnables]
    await Promise.all([hosted.stop(), ...added.map(each => manager.remove(each))])
  }
}
