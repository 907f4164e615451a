import { Backoff } from '../backoff.ts'
import type { Client } from '../client/client.ts'
import { isServerAway } from '../client/server-away.ts'
import { type Clock, sleep } from '../clock.ts'
import type { Logger } from '../logger.ts'
import type { RunnableMetrics } from '../metrics/runnable-metrics.ts'
import { systemRandom } from '../random.ts'
import type { Runnable } from '../runnable.ts'

/** Back-off of failed runnables. */
export const runnableDefaults = Object.freeze({
  /** Upper bound of the first pause, in ms. */
  backoffBaseMs: 1_000,
  /** Upper bound of every pause, in ms. A run of this length resets the back-off. */
  backoffMaxMs: 60_000,
})

/** Runs one runnable, never twice at once. */
export class RunnableHost {
  readonly runnable: Runnable
  readonly name: string
  readonly needsLeader: boolean
  readonly #client: Client
  readonly #clock: Clock
  readonly #log: Logger
  readonly #metrics: RunnableMetrics | undefined
  #stopping: AbortController | undefined
  #running: Promise<void> = Promise.resolve()
  #isRunning = false

  constructor(
    runnable: Runnable,
    options: { client: Client; clock: Clock; log: Logger; metrics?: RunnableMetrics | undefined },
  ) {
    this.name = runnable.name
    this.needsLeader = runnable.needsLeader ?? true
    this.runnable = runnable
    this.#client = options.client
    this.#clock = options.clock
    this.#log = (runnable.log ?? options.log).child({ runnable: runnable.name })
    this.#metrics = options.metrics
    this.#metrics?.add(runnable.name)
  }

  /** Whether it is still running, even after `stop`. */
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
    const { observer } = this.runnable
    let cancelRecovery = () => {}
    while (!signal.aborted) {
      const startMs = this.#clock.monotonic()
      this.#metrics?.running(this.name, true)
      try {
        await this.runnable.run({
          client: this.#client,
          signal,
          log: this.#log,
          clock: this.#clock,
          random: systemRandom,
        })
        break
      } catch (error) {
        cancelRecovery()
        if (signal.aborted) break
        this.#metrics?.running(this.name, false)
        this.#metrics?.failed(this.name)
        if (this.#clock.monotonic() - startMs >= maxMs) backoff.reset()
        const delayMs = backoff.next()
        this.#log.error({ err: error, delayMs }, 'runnable failed, restarting')
        if (!isServerAway(error)) observer?.failed(error)
        await sleep(this.#clock, delayMs, signal).catch(() => {})
        // A run that resets the back-off counts as one that works.
        cancelRecovery = this.#clock.setTimeout(() => observer?.recovered(), maxMs, { unref: true })
      }
    }
    cancelRecovery()
    observer?.recovered()
    this.#isRunning = false
    this.#metrics?.running(this.name, false)
  }
}
