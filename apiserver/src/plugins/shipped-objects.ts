import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from '@setpoint/controller-runtime'
import type { ModelRegistry } from '../model/index.ts'
import type { ActorWrites } from './actor-writes.ts'
import { applyExtensions, type ExtensionProblem } from './extensions.ts'
import type { ReportedProblem } from './index-report.ts'
import { RegistryWriter } from './registry-writer.ts'

export const shippedObjectsDefaults = Object.freeze({
  /** Milliseconds between attempts at YAML documents with transient problems. */
  retryMs: 5_000,
})

interface ShippedObjectsParts {
  readonly plugin: string
  /** The plugin's. */
  readonly writes: ActorWrites
  /** Version of the plugin's package. */
  readonly version: string
  /** The plugin's folder. */
  readonly dir: string
  readonly resourcesDir: string | undefined
  readonly models: ModelRegistry
  readonly reservedDomain: string
  readonly log: Logger
  /** Stops before the next document. */
  readonly signal: AbortSignal
  /** Called with the documents that are not applied, after each attempt. */
  readonly applied: (problems: readonly ReportedProblem[]) => void
}

/**
 * Applies the YAML documents that a plugin ships. Resolves after the first attempt. Documents with transient problems,
 * such as objects of another plugin's kind, are retried in the background. Never rejects.
 */
export async function applyShippedObjects(parts: ShippedObjectsParts): Promise<void> {
  const { resourcesDir, signal, log } = parts
  if (resourcesDir === undefined) return
  const attempt = () =>
    applyOnce(parts, resourcesDir).catch(error => {
      if (!signal.aborted) log.error({ err: error }, 'failed to apply the shipped objects')
      return true
    })
  if (!(await attempt())) void retry(attempt, signal)
}

async function retry(attempt: () => Promise<boolean>, signal: AbortSignal): Promise<void> {
  do {
    await delay(shippedObjectsDefaults.retryMs, undefined, { signal, ref: false }).catch(() => {})
  } while (!signal.aborted && !(await attempt()))
}

/** Returns true if no transient problem is left. */
async function applyOnce(parts: ShippedObjectsParts, resourcesDir: string): Promise<boolean> {
  const { plugin, version, dir, models, writes, reservedDomain, log, signal } = parts
  const result = await applyExtensions({
    dir,
    resourcesDir,
    plugin,
    version,
    reservedDomain,
    writer: new RegistryWriter(models, writes),
    signal,
  })
  log.info(
    { applied: result.applied, unchanged: result.unchanged, problems: result.problems.length },
    'applied the shipped objects',
  )
  for (const problem of result.problems) log.warn({ ...problem }, 'a shipped object has a problem')
  if (!signal.aborted) parts.applied(result.problems.map(describeProblem))
  return !result.problems.some(problem => problem.transient)
}

function describeProblem({ file, line, message }: ExtensionProblem): ReportedProblem {
  return { source: `${file}:${line}`, message }
}
