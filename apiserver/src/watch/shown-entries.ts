import { type ApiError, isApiError } from '@setpoint/controller-runtime/api'
import type { Entry, ModelCache, PreparedViews } from '../cache/index.ts'
import { ConversionNeeded, type ServedVersion } from '../model/index.ts'
import type { Preparations } from './preparations.ts'

/** Shows entries to one subscription, which may have to wait until a webhook has converted them. */
export class ShownEntries {
  readonly #cache: ModelCache
  readonly #version: ServedVersion
  readonly #preparations: Preparations
  readonly #goOn: () => void
  /** What it has waited for. */
  #views: PreparedViews = new Map()
  #isWaiting = false

  /** @param goOn called when `isWaiting` has become false */
  constructor(cache: ModelCache, version: ServedVersion, preparations: Preparations, goOn: () => void) {
    this.#cache = cache
    this.#version = version
    this.#preparations = preparations
    this.#goOn = goOn
  }

  get isWaiting(): boolean {
    return this.#isWaiting
  }

  /**
   * Returns the result of a call with the bytes of an entry, or its error for the client.
   * @param upcoming returns the entry with those that are shown after it
   * @returns undefined if the entry must be converted first. It is waited for then.
   */
  show<T>(
    entry: Entry,
    call: (bytesOf: () => Buffer) => T,
    upcoming: () => readonly Entry[],
  ): T | ApiError | undefined {
    const running = this.#views.has(entry) ? undefined : this.#preparations.running(entry, this.#version)
    if (running !== undefined) {
      this.#await(running)
      return undefined
    }
    try {
      return call(() => this.#bytesOf(entry))
    } catch (error) {
      if (error instanceof ConversionNeeded) {
        this.#await(this.#preparations.start(upcoming(), this.#version))
        return undefined
      }
      if (isApiError(error)) return error
      throw error
    }
  }

  /** @throws ConversionError; ConversionNeeded */
  #bytesOf(entry: Entry): Buffer {
    const view = this.#views.get(entry) ?? this.#cache.bytesOf(entry, this.#version)
    if (isApiError(view)) throw view
    return view
  }

  #await(preparation: Promise<PreparedViews>): void {
    this.#isWaiting = true
    void preparation.then(views => {
      this.#views = views
      this.#isWaiting = false
      this.#goOn()
    })
  }
}
