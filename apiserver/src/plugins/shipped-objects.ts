import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from '@setpoint/controller-runtime'
import type { FreshKinds } from '../http/index.ts'
import { deepEqual, type ModelRegistry } from '../model/index.ts'
import type { ActorWrites } from './actor-writes.ts'
import {
  applyDocuments,
  applyExtensions,
  type ExtensionOptions,
  type ExtensionProblem,
  type ExtensionResult,
} from './extensions.ts'
import type { ReportedProblem } from './index-report.ts'
import { RegistryWriter } from './registry-writer.ts'

export const shippedObjectsDefaults = Object.freeze({
  /**
   * Milliseconds before the second attempt at documents with transient problems. Each further wait is twice as long.
   */
  retryMs: 5_000,
  /** Most milliseconds between two attempts. */
  maxRetryMs: 20_000,
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
  readonly definitions: FreshKinds
  readonly reservedDomain: string
  readonly log: Logger
  /** Stops before the next document. */
  readonly signal: AbortSignal
  /** Called with the documents that are not applied, after the first attempt and whenever they have changed. */
  readonly applied: (problems: readonly ReportedProblem[]) => void
}

/**
 * Applies the YAML documents that a plugin ships. Resolves after the first attempt. Documents with transient problems,
 * such as objects of another plugin's kind, are retried in the background. Those that were applied are not, so an
 * object that people delete stays deleted until the next start. Never rejects.
 */
export async function applyShippedObjects(parts: ShippedObjectsParts): Promise<void> {
  const { plugin, version, dir, resourcesDir, models, definitions, writes, reservedDomain, log, signal } =
    parts
  if (resourcesDir === undefined) return
  const writer = new RegistryWriter(models, writes, definitions)
  const options = { dir, resourcesDir, plugin, version, reservedDomain, writer, signal }
  try {
    const first = await applyExtensions(options)
    report(parts, first, first.problems)
    void retry(parts, options, first)
  } catch (error) {
    if (!signal.aborted) log.error({ err: error }, 'failed to apply the shipped objects')
  }
}

/** Retries the documents that are left until each is applied. Their files are not read again. Never rejects. */
async function retry(
  parts: ShippedObjectsParts,
  options: ExtensionOptions,
  first: ExtensionResult,
): Promise<void> {
  const { retryMs, maxRetryMs } = shippedObjectsDefaults
  const { signal } = parts
  let { left, problems } = first
  for (let waitMs: number = retryMs; left.length > 0; waitMs = Math.min(2 * waitMs, maxRetryMs)) {
    await delay(waitMs, undefined, { signal, ref: false }).catch(() => {})
    // Rejects only when the signal is aborted.
    const result = await applyDocuments(left, options).catch(() => undefined)
    if (result === undefined || signal.aborted) return
    const tried = problems.filter(({ transient }) => transient)
    problems = [...problems.filter(({ transient }) => !transient), ...result.problems]
    left = result.left
    if (!deepEqual(result.problems, tried)) report(parts, result, problems)
  }
}

function report(
  { log, signal, applied }: ShippedObjectsParts,
  result: ExtensionResult,
  problems: readonly ExtensionProblem[],
): void {
  const counts = { applied: result.applied, unchanged: result.unchanged, problems: problems.length }
  log.info(counts, 'applied the shipped objects')
  for (const problem of problems) log.warn({ ...problem }, 'a shipped object has a problem')
  if (!signal.aborted) applied(problems.map(describeProblem))
}

function describeProblem({ file, line, message }: ExtensionProblem): ReportedProblem {
  return { source: `${file}:${line}`, message }
}
