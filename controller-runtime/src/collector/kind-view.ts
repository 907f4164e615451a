import type { Model } from '../api/model.ts'
import type { ApiObject } from '../api/object.ts'
import { compareVersions } from '../api/version.ts'
import type { Client } from '../client/client.ts'
import { type Clock, sleep, systemClock } from '../clock.ts'
import { type Logger, silentLogger } from '../logger.ts'
import { Watcher, type WatcherEvent } from '../watch/watcher.ts'
import { metadataWatch } from './metadata-watch.ts'

export const kindViewDefaults = Object.freeze({
  /** Duration of a catch-up watch in seconds: the shortest that a client can request. */
  catchUpSeconds: 1,
  /** Time for a view that is behind to catch up before the next attempt. */
  behindMs: 100,
  /** Pause before restarting after an unexpected error, in ms. */
  restartMs: 1_000,
})

interface KindViewOptions {
  readonly client: Client
  readonly log?: Logger
  readonly clock?: Clock
  /** Returns true if an initial object must be reported. */
  concerns(object: ApiObject): boolean
  /** Handles an event; called one at a time. */
  take(event: WatcherEvent): Promise<void> | void
}

/** Follows the objects of one kind, and knows up to which version. */
export class KindView {
  readonly model: Model
  readonly #client: Client
  readonly #log: Logger
  readonly #clock: Clock
  readonly #options: KindViewOptions
  readonly #stopping = new AbortController()
  #told: string | undefined
  /** Monotonic ms since when the kind has not responded; undefined if it responded last time. */
  #silentSince: number | undefined
  #running: Promise<void> | undefined
  /** True as long as the watch may have events that were not handled. */
  #isOpen = false
  #isFinishing = false

  constructor(model: Model, options: KindViewOptions) {
    this.model = model
    this.#options = options
    this.#client = options.client
    this.#log = options.log ?? silentLogger
    this.#clock = options.clock ?? systemClock
  }

  start(): void {
    if (this.#running === undefined) this.#silentSince = this.#clock.monotonic()
    this.#running ??= this.#run(this.#stopping.signal)
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new DOMException(`view of ${this.model.plural} stopped`, 'AbortError'))
    await this.#running
  }

  /**
   * Stops when the present watch ends, which the server does with a kind that it no longer serves: the last deletions
   * may still be on their way.
   */
  async finish(): Promise<void> {
    this.#isFinishing = true
    if (!this.#isOpen) await this.stop()
    await this.#running
  }

  /** How long the kind has not responded, in ms; 0 if it responds. */
  get silentMs(): number {
    return this.#silentSince === undefined ? 0 : this.#clock.monotonic() - this.#silentSince
  }

  /** Returns true if all changes of the kind's objects up to that version have been handled. */
  hasReached(version: string): boolean {
    return this.#told !== undefined && compareVersions(this.#told, version) >= 0
  }

  /**
   * Catches up with the present version: a quiet kind gets a newer version only with its next bookmark, up to a minute
   * later. A short watch returns one earlier; if it returns a change, the view's own watch will deliver it. Never
   * rejects.
   */
  async catchUp(): Promise<void> {
    const { signal } = this.#stopping
    const version = this.#told
    try {
      if (version === undefined) {
        await sleep(this.#clock, kindViewDefaults.catchUpSeconds * 1000, signal)
        return
      }
      const stream = await this.#client.watch(this.model, {
        version,
        timeoutSeconds: kindViewDefaults.catchUpSeconds,
        signal,
      })
      this.#silentSince = undefined
      for await (const event of stream) {
        if (event.type !== 'BOOKMARK') {
          await sleep(this.#clock, kindViewDefaults.behindMs, signal)
          return
        }
        // The view's own watch may be further by now.
        if (!this.hasReached(event.object.metadata.version)) this.#told = event.object.metadata.version
      }
    } catch (error) {
      if (signal.aborted) return
      this.#silentSince ??= this.#clock.monotonic()
      this.#log.debug({ err: error }, 'failed to catch up with the kind, retrying')
      await sleep(this.#clock, kindViewDefaults.catchUpSeconds * 1000, signal).catch(() => {})
    }
  }

  async #run(signal: AbortSignal): Promise<void> {
    const source = metadataWatch(this.#client, this.#options.concerns, isOpen => {
      this.#isOpen = isOpen
      if (!isOpen && this.#isFinishing) void this.stop()
    })
    const watcher = new Watcher(source, this.model, { log: this.#log, clock: this.#clock })
    while (!signal.aborted) {
      try {
        for await (const event of watcher.events(signal)) {
          await this.#options.take(event)
          this.#silentSince = undefined
          if (!this.hasReached(event.version)) this.#told = event.version
        }
      } catch (error) {
        if (signal.aborted) return
        this.#log.error({ err: error }, 'view of a kind failed, restarting')
        await sleep(this.#clock, kindViewDefaults.restartMs, signal).catch(() => {})
      }
    }
  }
}
