import type { ScenarioClock } from './scenario-clock.ts'

/**
 * Bounds of a wait, in steps of about two ms. On a slow machine steps are slow too, and those in which the server works
 * on a call, such as one that waits for the disk, are not counted.
 */
export const waitDefaults = Object.freeze({
  /** Steps without activity until an idle process skips to its next timer. */
  skipAfter: 2,
  /** Steps without activity until time passes for a run in progress, which may wait for a file or another server. */
  creepAfter: 25,
  /** Ms of the controllers' clock that then pass in each step. */
  creepMs: 50,
  /** Steps without activity or timers until nothing more is expected; the server may be deleting dependents. */
  quiet: 1_500,
  /** Steps without activity until a run in progress counts as stuck. */
  stuck: 1_500,
  /** All steps of a wait. */
  steps: 5_000,
})

/** Real ms of a step. */
const stepMs = 2

/** What a process is doing. */
export interface Activity {
  /** Grows with every request, response, event and completed run. */
  readonly count: number
  /** Whether there is no work, except delayed work. */
  readonly isIdle: boolean
  /** Whether the server works on a call. */
  readonly isServerBusy: boolean
}

export interface WaitOptions {
  /** Ms of the controllers' clock that may pass. */
  readonly patienceMs: number
  /** Steps without activity or timers that end the wait. Default `waitDefaults.quiet`. */
  readonly quiet?: number
}

/**
 * One wait for a process. Its clock stands still while the process works and skips to the next timer when it is idle,
 * so back-offs and requeues cost no time.
 */
export class Wait {
  readonly #clock: ScenarioClock
  readonly #look: () => Activity
  readonly #patienceMs: number
  readonly #untilMs: number
  readonly #quiet: number
  #steps = 0
  /** Steps since the last activity. */
  #still = 0
  /** Steps since the last activity or skip. */
  #unmoved = 0
  #seen: number

  constructor(clock: ScenarioClock, look: () => Activity, { patienceMs, quiet }: WaitOptions) {
    this.#clock = clock
    this.#look = look
    this.#patienceMs = patienceMs
    this.#untilMs = clock.elapsedMs + patienceMs
    this.#quiet = quiet ?? waitDefaults.quiet
    this.#seen = look().count
  }

  /** Lets the process work for a moment. Returns the reason if waiting longer is useless. */
  async step(): Promise<string | undefined> {
    await pause()
    const { count, isIdle, isServerBusy } = this.#look()
    if (isServerBusy) return undefined
    if (++this.#steps >= waitDefaults.steps) return `it was still active after ${this.#steps} steps`
    if (count !== this.#seen) {
      this.#seen = count
      this.#still = 0
      this.#unmoved = 0
      return undefined
    }
    this.#still++
    this.#unmoved++
    return isIdle ? this.#idle() : this.#busy()
  }

  #idle(): string | undefined {
    const inMs = this.#clock.nextTimerInMs
    if (inMs !== undefined && this.#clock.elapsedMs + inMs <= this.#untilMs) {
      if (this.#unmoved >= waitDefaults.skipAfter) {
        this.#unmoved = 0
        this.#clock.advance(inMs)
      }
      return undefined
    }
    if (this.#still < this.#quiet) return undefined
    return `it was idle, with no work due within ${this.#patienceMs} ms of its clock`
  }

  #busy(): string | undefined {
    if (this.#unmoved >= waitDefaults.creepAfter) this.#clock.advance(waitDefaults.creepMs)
    if (this.#clock.elapsedMs >= this.#untilMs) {
      return `a run was in progress for ${this.#patienceMs} ms of its clock`
    }
    return this.#still < waitDefaults.stuck ? undefined : `a run made no progress for ${this.#still} steps`
  }
}

/** Lets the process work for a step. */
export function pause(): Promise<void> {
  return new Promise(resolve => setTimeout(resolve, stepMs))
}
