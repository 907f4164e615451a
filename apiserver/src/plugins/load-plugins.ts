import { type Clock, systemClock } from '@setpoint/controller-runtime'
import type { LoadedPlugin } from './load-plugin.ts'
import { PluginLoadError } from './plugin-package.ts'

export const loadingDefaults = Object.freeze({
  /**
   * Milliseconds after that later sources overtake a module. If two plugins declare the same kind, the first one wins,
   * unless it takes longer than this.
   */
  orderMs: 5_000,
})

/** The outcome of loading the plugin of one source. */
export type LoadOutcome = { readonly source: string } & (
  | { readonly loaded: LoadedPlugin }
  | { readonly error: PluginLoadError }
)

/**
 * Loads the plugins of all sources concurrently and yields each outcome in the order of the sources. A module that
 * never finishes loading does not block the others. If two plugins have the same name, the first one counts. Never
 * rejects.
 */
export async function* loadPlugins(
  sources: readonly string[],
  load: (source: string) => Promise<LoadedPlugin>,
  clock: Clock = systemClock,
): AsyncGenerator<LoadOutcome, void> {
  const names = new Map<string, string>()
  const settle = (outcome: LoadOutcome): LoadOutcome => {
    if ('error' in outcome) return outcome
    const { source, loaded } = outcome
    const { name } = loaded.plugin
    const other = names.get(name)
    if (other === undefined) {
      names.set(name, source)
      return outcome
    }
    const problem = `the name ${JSON.stringify(name)} is that of the plugin in ${other}; give it another in definePlugin`
    return { source, error: new PluginLoadError(source, problem) }
  }
  const pending = new Map<string, Promise<LoadOutcome>>()
  for (const source of sources) {
    const loading = load(source).then(
      loaded => ({ source, loaded }),
      (error: unknown) => {
        const known = error instanceof PluginLoadError
        return { source, error: known ? error : new PluginLoadError(source, String(error), { cause: error }) }
      },
    )
    pending.set(source, loading)
  }
  let cancel = () => {}
  const patience = new Promise<undefined>(over => {
    cancel = clock.setTimeout(() => over(undefined), loadingDefaults.orderMs)
  })
  for (const [source, loading] of [...pending]) {
    const outcome = await Promise.race([loading, patience])
    if (outcome === undefined) continue
    pending.delete(source)
    yield settle(outcome)
  }
  cancel()
  while (pending.size > 0) {
    const outcome = await Promise.race(pending.values())
    pending.delete(outcome.source)
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
