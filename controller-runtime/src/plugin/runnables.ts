import type { Client } from '../client/client.ts'
import type { Logger } from '../logger.ts'

/** Passed to the function of a runnable or a schedule. */
export interface PluginRunContext {
  /** Acts as the plugin. With `leaderElected`, its writes fail once this process no longer leads. */
  readonly client: Client
  /** Aborted when the plugin stops or, with `leaderElected`, when this process no longer leads. */
  readonly signal: AbortSignal
  /** Has the names of the plugin and the runnable as fields. */
  readonly log: Logger
}

/** The function of a runnable or a schedule. */
export type PluginRun = (context: PluginRunContext) => Promise<void> | void

/** Options of `plugin.runnable`. */
export interface PluginRunnableOptions {
  /**
   * Default true, as in controller-runtime: of all processes with the plugin's controllers, only the leader runs it. False:
   * every such process does.
   */
  readonly leaderElected?: boolean
}
