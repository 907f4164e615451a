import type { Client } from './client/client.ts'
import type { Clock } from './clock.ts'
import type { Logger } from './logger.ts'
import type { RandomSource } from './random.ts'

/** Something that runs besides the controllers: a timer, a server, a collector. */
export interface Runnable {
  /** Unique among the runnables and controllers of a manager. */
  readonly name: string
  /** Default true: it runs only while this process is the leader, like a controller. */
  readonly needsLeader?: boolean
  /** Default: that of the manager. */
  readonly log?: Logger
  /** Told when it fails and when it works again. */
  readonly observer?: RunnableObserver
  /**
   * Runs until the signal is aborted or the work is done. If it fails, it is restarted with back-off; once it has
   * returned, it runs again only when this process becomes the leader again.
   */
  run(context: RunnableContext): Promise<void> | void
}

/** Told whether something that runs repeatedly works in this process. */
export interface RunnableObserver {
  /** It has failed, and will run again. Not called for failures of a server that is away. */
  failed(error: unknown): void
  /** It works again, or no longer runs in this process. Also called without a failure. */
  recovered(): void
}

/** Passed to a runnable. */
export interface RunnableContext {
  /** If the runnable needs the leader, the leadership guard checks its writes. */
  readonly client: Client
  /** Aborted when the manager stops or, if the runnable needs the leader, when leadership is lost. */
  readonly signal: AbortSignal
  readonly log: Logger
  /** The manager's clock: the system's in production, a fake one in tests. */
  readonly clock: Clock
  /** The system's randomness. */
  readonly random: RandomSource
}
