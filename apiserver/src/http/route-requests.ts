import { type Clock, sleep, systemClock } from '@setpoint/controller-runtime'

/** Counts the requests for the routes of one plugin that wait for their response. */
export class RouteRequests {
  #open = 0
  #waiting: (() => void)[] = []

  begin(): void {
    this.#open++
  }

  /** To be called once for each request, when its response has been sent or the client has left. */
  end(): void {
    this.#open--
    if (this.#open === 0) for (const resolve of this.#waiting.splice(0)) resolve()
  }

  /** Resolves when no request is open, after `limitMs`, or when the signal is aborted. */
  async drained(limitMs: number, signal: AbortSignal, clock: Clock = systemClock): Promise<void> {
    if (this.#open === 0 || signal.aborted) return
    const over = new AbortController()
    const stop = () => over.abort()
    this.#waiting.push(stop)
    signal.addEventListener('abort', stop, { once: true })
    await sleep(clock, limitMs, over.signal).catch(() => {})
    signal.removeEventListener('abort', stop)
  }
}
