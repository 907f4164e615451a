import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { CancelTimer, Clock } from '../clock.ts'
import type { Logger } from '../logger.ts'

/** Measures the delay of the event loop. */
export interface EventLoopDelayMeter {
  /** The longest delay since the last call, ms. */
  takeMaxMs(): number
  stop(): void
}

/** Sampling interval in ms: fine enough to measure seconds. */
const resolutionMs = 50

/**
 * Measures with Node's histogram, which samples when the loop gets to it. A delay that ends during a reset would be
 * lost, so each histogram is kept for one more call.
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
      // A sample includes the interval itself.
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
 * Warns if the event loop was blocked long enough to delay a renewal of the lease, so that a blocking reconciler can be
 * found before it costs the lease.
 */
export class EventLoopWatch {
  readonly #clock: Clock
  readonly #log: Logger
  readonly #measure: () => EventLoopDelayMeter
  readonly #limitMs: number
  #meter: EventLoopDelayMeter | undefined
  #cancel: CancelTimer = () => {}

  /** @param options.limitMs the delay that causes a warning, also the interval of the checks */
  constructor(options: {
    clock: Clock
    log: Logger
    /** Starts a measurement. */
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
      this.#log.warn({ delayMs }, 'event loop was blocked; a longer block would lose the lease')
    }
    this.#wait(meter)
  }
}
