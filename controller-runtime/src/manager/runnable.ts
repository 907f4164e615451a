import { Backoff } from '../backoff.ts'
import type { Client } from '../client/client.ts'
import { type Clock, sleep } from '../clock.ts'
import type { Logger } from '../logger.ts'

/** Times after which a runnable that failed is run again. */
export const runnableDefaults = Object.freeze({
  /** Ceiling of the first pause after a runnable has failed. */
  backoffBaseMs: 1_000,
  /** Ceiling of any pause. */
  backoffMaxMs: 60_000,
})

/** Something that runs beside the controllers: a timer, a server, a collector. */
export interface Runnable {
  /** Unique in its manager, controllers included. */
  readonly name: string
  /** Default true: it runs only while this process leads, like a controller. */
  readonly needsLeader?: boolean
  /**
   * Works until its signal is aborted, or until it is done. One that fails is run again after a pause; one that was
   * done is not run again before the process comes to lead anew.
   */
  run(context: RunnableContext): Promise<void> | void
}

/** What a runnable gets. */
export interface RunnableContext {
  /** Where the runnable needs to lead, its writes are fenced. */
  readonly client: Client
  /** Aborted when the manager stops or, where the runnable needs to lead, when leadership is lost. */
  readonly signal: AbortSignal
  readonly log: Logger
}

/** One runnable in a manager. It is never in two runs at once. */
export class RunnableHost {
  readonly name: string
  readonly needsLeader: boolean
  readonly #runnable: Runnable
  readonly #client: Client
  readonly #clock: Clock
  readonly #log: Logger
  #stopping: AbortController | undefined
  #running: Promise<void> = Promise.resolve()
  #isRunning = false

  constructor(runnable: Runnable, options: { client: Client; clock: Clock; log: Logger }) {
    this.name = runnable.name
    this.needsLeader = runnable.needsLeader ?? true
    this.#runnable = runnable
    this.#client = options.client
    this.#clock = options.clock
    this.#log = options.log.child({ runnable: runnable.name })
  }

  /** Whether something of it goes on, also after it was told to stop. */
  get isRunning(): boolean {
    return this.#isRunning
  }

  start(): void {
    if (this.#stopping !== undefined) return
    const stopping = new AbortController()
    this.#stopping = stopping
    this.#running = this.#running.then(() => this.#run(stopping.signal))
  }

  /** Resolves when it has ended, which may be never. */
  stop(reason: Error): Promise<void> {
    this.#stopping?.abort(reason)
    this.#stopping = undefined
    return this.#running
  }

  async #run(signal: AbortSignal): Promise<void> {
    this.#isRunning = true
    const { backoffBaseMs: baseMs, backoffMaxMs: maxMs } = runnableDefaults
    const backoff = new Backoff({ baseMs, maxMs, random: Math.random })
    while (!signal.aborted) {
      try {
        await this.#runnable.run({ client: this.#client, signal, log: this.#log })
        break
      } catch (error) {
        if (signal.aborted) break
        const delayMs = backoff.next()
        this.#log.error({ err: error, delayMs }, 'the runnable has failed; it is run again')
        await sleep(this.#clock, delayMs, signal).catch(() => {})
      }
    }
    this.#isRunning = false
  }
}
