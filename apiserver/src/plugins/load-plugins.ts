import { type Clock, systemClock } from '@setpoint/controller-runtime'
import { type LoadedPlugin, loadPlugin, PluginLoadError } from './load-plugin.ts'

export const loadingDefaults = Object.freeze({
  /**
   * Milliseconds after that later folders overtake a module. If two plugins declare the same kind, the first folder
   * wins, unless it takes longer than this.
   */
  orderMs: 5_000,
})

/** A folder that cannot be loaded as a plugin. */
export interface FailedLoad {
  readonly dir: string
  readonly error: PluginLoadError
}

/** The outcome for one folder. */
export type LoadOutcome = LoadedPlugin | FailedLoad

/**
 * Loads all folders concurrently and yields each outcome in the order of the folders. A module that never finishes
 * loading does not block the others. If two plugins have the same name, the first one counts. Never rejects.
 */
export async function* loadPlugins(
  dirs: readonly string[],
  load: (dir: string) => Promise<LoadedPlugin> = loadPlugin,
  clock: Clock = systemClock,
): AsyncGenerator<LoadOutcome, void> {
  const names = new Map<string, string>()
  const settle = (outcome: LoadOutcome): LoadOutcome => {
    if ('error' in outcome) return outcome
    const { dir, plugin } = outcome
    const twin = names.get(plugin.name)
    if (twin === undefined) {
      names.set(plugin.name, dir)
      return outcome
    }
    const problem = `the name ${JSON.stringify(plugin.name)} is that of the plugin in ${twin}; give it another in definePlugin`
    return { dir, error: new PluginLoadError(dir, problem) }
  }
  const pending = new Map<string, Promise<{ dir: string; outcome: LoadOutcome }>>()
  for (const dir of dirs) {
    const loading = load(dir).catch((error: unknown) => ({
      dir,
      error:
        error instanceof PluginLoadError ? error : new PluginLoadError(dir, String(error), { cause: error }),
    }))
    pending.set(
      dir,
      loading.then(outcome => ({ dir, outcome })),
    )
  }
  let cancel = () => {}
  const patience = new Promise<undefined>(over => {
    cancel = clock.setTimeout(() => over(undefined), loadingDefaults.orderMs)
  })
  for (const [dir, loading] of [...pending]) {
    const loaded = await Promise.race([loading, patience])
    if (loaded === undefined) continue
    pending.delete(dir)
    yield settle(loaded.outcome)
  }
  cancel()
  while (pending.size > 0) {
    const { dir, outcome } = await Promise.race(pending.values())
    pending.delete(dir)
    yield settle(outcome)
  }
}

/** Returns a valid object name for a folder, for a plugin whose own name is unknown. */
export function objectNameOf(dir: string): string {
  const base = dir.split(/[\\/]/).findLast(part => part !== '') ?? ''
  return (
    base
      .toLowerCase()
      .replace(/[^a-z0-9]+/g, '-')
      .replace(/^-+|-+$/g, '')
      .slice(0, 63)
      .replace(/-+$/, '') || 'unnamed'
  )
}
