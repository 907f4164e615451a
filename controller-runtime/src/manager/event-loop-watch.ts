import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { CancelTimer, Clock } from '../clock.ts'
import type { Logger } from '../logger.ts'

/** How long the event loop has kept others waiting. */
export interface EventLoopDelayMeter {
  /** The longest delay since the last call, ms. */
  takeMaxMs(): number
  stop(): void
}

/** Milliseconds between two samples of the event loop: fine enough for what is measured in seconds. */
const resolutionMs = 50

/**
 * Node's own measurement. A histogram takes a sample when the loop gets to it, and forgets at a reset where the last one
 * was: a delay that ends with the very look would be lost. So each is kept on for one look more.
 */
export function measureEventLoopDelay(): EventLoopDelayMeter {
  const begin = () => {
    const histogram = monitorEventLoopDelay({ resolution: resolutionMs })
    histogram.enable()
    return histogram
  }
  let current = begin()
  let previous: { readonly histogram: typeof current; readonly told: number } | undefined
  return {
    takeMaxMs() {
      const late =
        previous !== undefined && previous.histogram.max > previous.told ? previous.histogram.max : 0
      previous?.histogram.disable()
      previous = { histogram: current, told: current.max }
      // A sample is the time between two looks, so the resolution is in it.
      const ms = Math.max(0, Math.max(current.max, late) / 1e6 - resolutionMs)
      current = begin()
      return ms
    },
    stop() {
      previous?.histogram.disable()
      current.disable()
    },
  }
}

/**
 * Says so when the event loop was blocked for so long that a renewal of the lease came late: the reconcile that
 * computes for seconds is then to be found, before it costs the lease.
 */
export class EventLoopWatch {
  readonly #clock: Clock
  readonly #log: Logger
  readonly #measure: () => EventLoopDelayMeter
  readonly #limitMs: number
  #meter: EventLoopDelayMeter | undefined
  #cancel: CancelTimer = () => {}

  /** @param options.limitMs the delay from which on it says so, and the time between two looks */
  constructor(options: {
    clock: Clock
    log: Logger
    /** Begins to measure. */
    measure: () => EventLoopDelayMeter
    limitMs: number
  }) {
    this.#clock = options.clock
    this.#log = options.log
    this.#measure = options.measure
    this.#limitMs = options.limitMs
  }

  start(): void {
    const meter = this.#measure()
    this.#meter = meter
    this.#wait(meter)
  }

  stop(): void {
    this.#cancel()
    this.#meter?.stop()
  }

  #wait(meter: EventLoopDelayMeter): void {
    this.#cancel = this.#clock.setTimeout(() => this.#look(meter), this.#limitMs, { unref: true })
  }

  #look(meter: EventLoopDelayMeter): void {
    const delayMs = Math.round(meter.takeMaxMs())
    if (delayMs >= this.#limitMs) {
      this.#log.warn({ delayMs }, 'the event loop was blocked; for longer, and the lease is lost')
    }
    this.#wait(meter)
  }
}
