import { type Clock, systemClock } from '@setpoint/controller-runtime'

export const repeatDefaults = Object.freeze({
  /** Lines with the same message from the same source in one window: enough to see a pattern. */
  lines: 10,
  /** Milliseconds from the first line of a window to its end. */
  windowMs: 10_000,
  /**
   * Messages of a source with a window of their own; the messages of plugins are not ours to bound. More share one
   * window.
   */
  messages: 1_000,
})

interface Window {
  lines: number
}

/** Not the JSON of any message. */
const othersKey = 'others'

/** The fields that name the part of the program that logs, for example its controller. */
type LineSource = Readonly<Record<string, unknown>>

/**
 * Limits how often a source logs a message, so that one that fails all the time does not hide the failures of others.
 */
export class RepeatLimit {
  readonly #clock: Clock
  readonly #summarize: (source: LineSource, message: string, suppressed: number) => void
  readonly #windows = new Map<string, Window>()
  #suppressed = 0

  /** `summarize` is called at the end of a window if lines were suppressed. */
  constructor(options: {
    summarize: (source: LineSource, message: string, suppressed: number) => void
    clock?: Clock
  }) {
    this.#summarize = options.summarize
    this.#clock = options.clock ?? systemClock
  }

  /** Lines suppressed since the start. */
  get suppressed(): number {
    return this.#suppressed
  }

  /** Returns true if a line with this message may be written now. */
  admits(source: LineSource, message: string): boolean {
    const window = this.#windowOf(source, message)
    window.lines++
    if (window.lines <= repeatDefaults.lines) return true
    this.#suppressed++
    return false
  }

  #windowOf(source: LineSource, message: string): Window {
    const key = JSON.stringify([source, message])
    const open = this.#windows.get(key)
    if (open !== undefined) return open
    return this.#windows.size < repeatDefaults.messages
      ? this.#open(key, source, message)
      : (this.#windows.get(othersKey) ?? this.#open(othersKey, {}, 'other messages'))
  }

  #open(key: string, source: LineSource, message: string): Window {
    const window = { lines: 0 }
    this.#windows.set(key, window)
    const close = () => {
      this.#windows.delete(key)
      const suppressed = window.lines - repeatDefaults.lines
      if (suppressed > 0) this.#summarize(source, message, suppressed)
    }
    this.#clock.setTimeout(close, repeatDefaults.windowMs, { unref: true })
    return window
  }
}
