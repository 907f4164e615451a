import type { Model } from '../api/model.ts'
import type { ApiObject } from '../api/object.ts'
import { compareVersions } from '../api/version.ts'
import type { Client } from '../client/client.ts'
import { type Clock, sleep, systemClock } from '../clock.ts'
import { type Logger, silentLogger } from '../logger.ts'
import { Watcher, type WatcherEvent } from '../watch/watcher.ts'
import { metadataWatch } from './metadata-watch.ts'

export const kindViewDefaults = Object.freeze({
  /** Seconds that a look for changes takes: the shortest watch that can be asked for. */
  lookSeconds: 1,
  /** How long a view that is behind gets to catch up before the next look. */
  behindMs: 100,
  /** Pause before a view begins anew after a fault of its own, which should not happen: no busy loop then. */
  restartMs: 1_000,
})

export interface KindViewOptions {
  readonly client: Client
  readonly log?: Logger
  readonly clock?: Clock
  /** Whether an object that is there at the beginning has to be told. */
  concerns(object: ApiObject): boolean
  /** Takes in what happens, one after the other. */
  take(event: WatcherEvent): Promise<void> | void
}

/** Follows the objects of one kind, and knows how far. */
export class KindView {
  readonly model: Model
  readonly #client: Client
  readonly #log: Logger
  readonly #clock: Clock
  readonly #options: KindViewOptions
  readonly #stopping = new AbortController()
  #told: string | undefined
  /** Monotonic ms since which the kind has not answered; undefined where it has, the last time it was asked. */
  #silentSince: number | undefined
  #running: Promise<void> | undefined

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
    this.#stopping.abort(new DOMException(`the view of ${this.model.plural} is stopped`, 'AbortError'))
    await this.#running
  }

  /** How long the kind has not answered, in ms: since the start, or since a look that failed. 0 where it does. */
  get silentMs(): number {
    return this.#silentSince === undefined ? 0 : this.#clock.monotonic() - this.#silentSince
  }

  /** Whether everything that happened to the kind's objects up to that version of the store has been taken in. */
  hasReached(version: string): boolean {
    return this.#told !== undefined && compareVersions(this.#told, version) >= 0
  }

  /**
   * Finds out whether anything has happened that was not told yet, and if not, up to where: the view of a quiet kind
   * gets a version only with the next bookmark, which may be a minute away. Where something has happened, it is left
   * to the view's own watch to tell. Never rejects.
   */
  async look(): Promise<void> {
    const { signal } = this.#stopping
    const version = this.#told
    try {
      if (version === undefined) {
        await sleep(this.#clock, kindViewDefaults.lookSeconds * 1000, signal)
        return
      }
      const stream = await this.#client.watch(this.model, {
        version,
        timeoutSeconds: kindViewDefaults.lookSeconds,
        signal,
      })
      this.#silentSince = undefined
      for await (const event of stream) {
        if (event.type !== 'BOOKMARK') {
          await sleep(this.#clock, kindViewDefaults.behindMs, signal)
          return
        }
        // What the watch has told meanwhile is part of the same history.
        if (!this.hasReached(event.object.metadata.version)) this.#told = event.object.metadata.version
      }
    } catch (error) {
      if (signal.aborted) return
      this.#silentSince ??= this.#clock.monotonic()
      this.#log.debug({ err: error }, 'no look at the kind; trying again')
      await sleep(this.#clock, kindViewDefaults.lookSeconds * 1000, signal).catch(() => {})
    }
  }

  async #run(signal: AbortSignal): Promise<void> {
    const watcher = new Watcher(metadataWatch(this.#client, this.#options.concerns), this.model, {
      log: this.#log,
      clock: this.#clock,
    })
    while (!signal.aborted) {
      try {
        for await (const event of watcher.events(signal)) {
          await this.#options.take(event)
          this.#silentSince = undefined
          if (!this.hasReached(event.version)) this.#told = event.version
        }
      } catch (error) {
        if (signal.aborted) return
        this.#log.error({ err: error }, 'the view of a kind failed; it begins anew')
        await sleep(this.#clock, kindViewDefaults.restartMs, signal).catch(() => {})
      }
    }
  }
}
