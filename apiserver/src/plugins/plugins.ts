import type { Logger } from '@setpoint/controller-runtime'
import type { PluginProgress } from '../http/index.ts'
import type { LoadedPlugin } from './load-plugin.ts'
import { loadPlugins } from './load-plugins.ts'
import { PluginLoadError } from './plugin-package.ts'
import { type SettingsSources, straySettings } from './plugin-settings.ts'
import { type CodeLoader, PluginLoader, type PluginSource, provisionalName } from './plugin-source.ts'
import type { PluginSpec, PluginSpecs } from './plugin-specs.ts'
import type { PluginStatuses } from './plugin-status.ts'

/** The result of a reload. `message` says why the plugin was not reloaded; what ran before runs on. */
export type ReloadOutcome =
  | { readonly reloaded: true }
  | { readonly reloaded: false; readonly message: string }

/** One plugin whose code is loaded, in a server or in a process of controllers. Its methods never reject. */
export interface PluginLifecycle extends PluginProgress {
  /** True when its kinds and routes are known. */
  readonly isRegistered: boolean
  /** Registers its kinds before it returns. Resolves when the plugin has started, failed or been found disabled. */
  start(): Promise<void>
  /** To be called when the spec of its `Plugin` object may have changed. Resolves when the spec is in effect. */
  follow(): Promise<void>
  reload(): Promise<ReloadOutcome>
  /**
   * Stops for good, with the process.
   * @param served resolves when the requests of its routes have ended, or are to be aborted. Default: at once
   */
  stop(served?: Promise<unknown>): Promise<void>
}

interface PluginsOptions {
  readonly create: (loader: CodeLoader, loaded: LoadedPlugin) => PluginLifecycle
  /** Default: a loader of the source's files. */
  readonly loaderOf?: ((source: PluginSource) => CodeLoader) | undefined
  readonly specs: Pick<PluginSpecs, 'get' | 'current' | 'reasonOf' | 'observe' | 'unmarked'>
  /** Gets the sources that cannot be loaded; absent where another process writes the statuses. */
  readonly statuses?: PluginStatuses
  readonly settings: SettingsSources
  readonly log: Logger
}

/** One source and its plugin. */
interface Slot {
  readonly loader: CodeLoader
  /** Undefined until the code has been loaded. */
  runner: PluginLifecycle | undefined
  /** Why the code cannot be loaded; undefined until it was tried, and when it has been loaded. */
  failed: LoadFailure | undefined
}

interface LoadFailure {
  readonly error: PluginLoadError
  /** Name of the `Plugin` object that says so. */
  readonly as: string
  /** The spec of that object that needs no action; undefined before it is known. */
  applied: PluginSpec | undefined
}

/** All plugins of this process: loads, starts, reloads and stops them. A plugin's fault does not affect the others. */
export class Plugins {
  readonly #options: PluginsOptions
  readonly #slots: Slot[] = []
  #isLoaded = false

  constructor(options: PluginsOptions) {
    this.#options = options
  }

  /** False until the kinds and routes of all plugins are known. */
  get isStarting(): boolean {
    return !this.#isLoaded || this.#slots.some(({ runner }) => runner !== undefined && !runner.isRegistered)
  }

  /** The state of each plugin whose code has been loaded or cannot be loaded. */
  get progress(): PluginProgress[] {
    return this.#slots.flatMap(({ loader, runner, failed }) => {
      if (runner !== undefined) return runner
      if (failed === undefined) return []
      const progress = failed.applied?.enabled === false ? 'disabled' : 'failed'
      return { name: provisionalName(loader.source), progress, isAwaited: false }
    })
  }

  /** The names of the plugins. A plugin whose code is not loaded has the name that its source suggests. */
  get names(): string[] {
    return this.#slots.map(({ loader, runner }) => runner?.name ?? provisionalName(loader.source))
  }

  /**
   * Loads and starts the plugins, and from then on follows their specs. Resolves when all are loaded and their kinds
   * are registered; `starting` resolves when they have started, failed or been found disabled.
   */
  async start(sources: readonly PluginSource[]): Promise<{ starting: Promise<void> }> {
    const { log, statuses, specs, loaderOf = source => new PluginLoader(source, log) } = this.#options
    const slots = new Map<string, Slot>()
    for (const source of sources) {
      if (slots.has(source.label)) continue
      const slot = { loader: loaderOf(source), runner: undefined, failed: undefined }
      slots.set(source.label, slot)
      this.#slots.push(slot)
    }
    specs.observe((name, isDeleted) => {
      if (isDeleted) statuses?.restore(name)
      else statuses?.defend(name, type => specs.reasonOf(name, type))
      this.#follow(name).catch(error => log.error({ plugin: name, err: error }, 'failed to follow a spec'))
    })
    const starts: Promise<void>[] = []
    const failed: { slot: Slot; error: PluginLoadError }[] = []
    const load = async (label: string) => {
      const loader = slots.get(label)?.loader
      if (loader === undefined) throw new Error(`unknown source ${label}`)
      return loader.load()
    }
    for await (const outcome of loadPlugins([...slots.keys()], load)) {
      const slot = slots.get(outcome.source)
      if (slot === undefined) continue
      if ('error' in outcome) {
        const { source, error } = outcome
        log.error({ source, err: error }, 'failed to load a plugin')
        slot.failed = { error, as: provisionalName(slot.loader.source), applied: undefined }
        failed.push({ slot, error })
      } else starts.push(this.#run(slot, outcome.loaded))
    }
    this.#isLoaded = true
    this.#warnOfStrays()
    for (const { slot, error } of failed) starts.push(this.#reportFailure(slot, error))
    void this.#markOthers()
    return { starting: Promise.all(starts).then(() => statuses?.settled()) }
  }

  /**
   * Loads the code of a plugin again and runs it in place of the present code, see `PluginLifecycle`. Also starts a
   * plugin whose code could not be loaded before. Never rejects.
   * @param label the `label` of its source
   */
  async reload(label: string): Promise<ReloadOutcome> {
    const slot = this.#slots.find(({ loader }) => loader.source.label === label)
    if (slot === undefined) return { reloaded: false, message: `there is no plugin from ${label}` }
    return slot.runner === undefined ? this.#loadAgain(slot) : slot.runner.reload()
  }

  /** Stops the plugins for good. @param served as for each plugin */
  async stop(served?: Promise<unknown>): Promise<void> {
    await Promise.all(this.#slots.map(({ runner }) => runner?.stop(served)))
  }

  /** Registers the kinds of a plugin before it returns. */
  #run(slot: Slot, loaded: LoadedPlugin): Promise<void> {
    const { statuses } = this.#options
    const name = provisionalName(slot.loader.source)
    if (name !== loaded.plugin.name) statuses?.forgetLoadError(name, slot.loader.source.label)
    slot.failed = undefined
    slot.runner = this.#options.create(slot.loader, loaded)
    return slot.runner.start()
  }

  #warnOfStrays(): void {
    const { settings, log } = this.#options
    for (const stray of straySettings(settings, this.names)) log.warn({}, stray)
  }

  /** Marks the `Plugin` objects of plugins that this server does not have. Never rejects. */
  async #markOthers(): Promise<void> {
    const { statuses, specs } = this.#options
    if (statuses === undefined) return
    // Objects of failures that no longer exist are deleted first.
    await statuses.settled()
    // Rejects when the server stops.
    const names = await specs.unmarked().catch(() => [])
    const own = new Set(this.#slots.map(({ runner, failed }) => runner?.name ?? failed?.as))
    for (const name of names) if (!own.has(name)) statuses.markNotInstalled(name)
  }

  async #follow(name: string): Promise<void> {
    for (const slot of this.#slots) {
      const { runner, failed } = slot
      if (runner?.name === name) await runner.follow()
      else if (runner === undefined && failed?.as === name && failed.applied !== undefined) {
        const { applied } = failed
        const wanted = this.#options.specs.current(name)
        failed.applied = wanted
        if (wanted.reload !== applied.reload || (wanted.enabled && !applied.enabled))
          await this.#loadAgain(slot)
        else if (!wanted.enabled && applied.enabled) this.#publishFailure(slot, failed, wanted)
      }
    }
  }

  /** Tries once more to load code that could not be loaded. */
  async #loadAgain(slot: Slot): Promise<ReloadOutcome> {
    const { label } = slot.loader.source
    try {
      const loaded = await slot.loader.load()
      const { name } = loaded.plugin
      if (this.#slots.some(({ runner }) => runner?.name === name))
        throw new PluginLoadError(label, `the name ${JSON.stringify(name)} is that of another plugin`)
      await this.#run(slot, loaded)
      return { reloaded: true }
    } catch (thrown) {
      const error = thrown instanceof PluginLoadError ? thrown : new PluginLoadError(label, String(thrown))
      this.#options.log.error({ source: label, err: error }, 'failed to load a plugin')
      await this.#reportFailure(slot, error)
      return { reloaded: false, message: error.message }
    }
  }

  /** Says why the code cannot be loaded, unless the plugin is disabled. Never rejects. */
  async #reportFailure(slot: Slot, error: PluginLoadError): Promise<void> {
    const taken = new Set(
      this.#slots.flatMap(each => (each === slot ? [] : (each.runner?.name ?? each.failed?.as ?? []))),
    )
    const as = unusedName(provisionalName(slot.loader.source), taken)
    const failed: LoadFailure = { error, as, applied: undefined }
    slot.failed = failed
    const spec = await this.#options.specs.get(as).catch(() => undefined)
    // The server stops, or the code has been tried again meanwhile.
    if (spec === undefined || slot.failed !== failed) return
    failed.applied = spec
    this.#publishFailure(slot, failed, spec)
  }

  #publishFailure({ loader }: Slot, { as, error }: LoadFailure, { enabled }: PluginSpec): void {
    this.#options.statuses?.publishLoadError(as, error.message, { source: loader.source.label, enabled })
  }
}

/** Returns the name, with a number if it is taken. */
function unusedName(name: string, taken: ReadonlySet<string>): string {
  let candidate = name
  for (let count = 2; taken.has(candidate); count++) candidate = `${name}-${count}`
  return candidate
}
