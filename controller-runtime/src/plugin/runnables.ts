import type { Client } from '../client/client.ts'
import type { Clock } from '../clock.ts'
import type { Logger } from '../logger.ts'
import type { RandomSource } from '../random.ts'

/** Passed to the function of a runnable or a schedule. */
export interface PluginRunContext {
  /** Acts as the plugin. With `leaderElected`, its writes fail once this process no longer leads. */
  readonly client: Client
  /** Aborted when the plugin stops or, with `leaderElected`, when this process no longer leads. */
  readonly signal: AbortSignal
  /** Has the names of the plugin and the runnable as fields. */
  readonly log: Logger
  /** The system's clock in production, a fake one in tests. */
  readonly clock: Clock
  /** Cryptographically secure in production, seeded by name in the conformance suite. */
  readonly random: RandomSource
}

/** The function of a runnable or a schedule. */
export type PluginRun = (context: PluginRunContext) => Promise<void> | void

/** Options of `plugin.runnable`. */
export interface PluginRunnableOptions {
  /**
   * Default true, as in controller-runtime: of all processes with the plugin's controllers, only the leader runs it.
   * False: every such process does.
   */
  readonly leaderElected?: boolean
}
