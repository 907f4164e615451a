import { type Clock, systemClock } from '@setpoint/controller-runtime'
import { type LoadedPlugin, loadPlugin, PluginLoadError } from './load-plugin.ts'

export const loadingDefaults = Object.freeze({
  /**
   * Milliseconds that a module may take before those of later folders go ahead of it. Which of two plugins that
   * declare one kind is served is decided by the order of the folders; who takes longer gives up his place.
   */
  orderMs: 5_000,
})

/** A folder that cannot be loaded as a plugin. */
export interface FailedLoad {
  readonly dir: string
  readonly error: PluginLoadError
}

/** What has become of a folder. */
export type LoadOutcome = LoadedPlugin | FailedLoad

/**
 * Loads all folders at once and answers what has become of each, in the order of the folders: one whose module does
 * not end loading keeps nobody waiting. Of two plugins of one name the first counts. Never rejects.
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

/** A valid object name for a plugin that could not even say its own: its folder's. */
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
