import { type Clock, systemClock } from '@setpoint/controller-runtime'

export const repeatDefaults = Object.freeze({
  /** Lines with the same message in one window: enough to see a pattern. */
  lines: 10,
  /** Milliseconds from the first line of a window to its end. */
  windowMs: 10_000,
  /** Messages with a window of their own; the messages of plugins are not ours to bound. More share one window. */
  messages: 1_000,
})

interface Window {
  lines: number
}

/** Limits how often a message is logged. */
export class RepeatLimit {
  readonly #clock: Clock
  readonly #summarize: (message: string, suppressed: number) => void
  readonly #windows = new Map<string, Window>()
  #suppressed = 0

  /** `summarize` is called at the end of a window if lines were suppressed. */
  constructor(options: { summarize: (message: string, suppressed: number) => void; clock?: Clock }) {
    this.#summarize = options.summarize
    this.#clock = options.clock ?? systemClock
  }

  /** Lines suppressed since the start. */
  get suppressed(): number {
    return this.#suppressed
  }

  /** Returns true if a line with this message may be written now. */
  admits(message: string): boolean {
    const hasRoom = this.#windows.has(message) || this.#windows.size < repeatDefaults.messages
    const window = this.#windowOf(hasRoom ? message : 'other messages')
    window.lines++
    if (window.lines <= repeatDefaults.lines) return true
    this.#suppressed++
    return false
  }

  #windowOf(key: string): Window {
    const open = this.#windows.get(key)
    if (open !== undefined) return open
    const window = { lines: 0 }
    this.#windows.set(key, window)
    const close = () => {
      this.#windows.delete(key)
      if (window.lines > repeatDefaults.lines) this.#summarize(key, window.lines - repeatDefaults.lines)
    }
    this.#clock.setTimeout(close, repeatDefaults.windowMs, { unref: true })
    return window
  }
}
