import type { Readable } from 'node:stream'
import { setTimeout } from 'node:timers/promises'
import { ApiError } from '@setpoint/controller-runtime/api'

export const profilerDefaults = Object.freeze({
  /** Seconds of a profile. */
  seconds: 5,
  mostSeconds: 60,
  /** The `Retry-After` of a refusal. */
  retryAfterSeconds: 10,
})

/**
 * Takes profiles of this process: one at a time, because each slows the server down, and a heap snapshot stops it until
 * it is complete. The modules are loaded when they are needed.
 */
export class Profiler {
  #isBusy = false

  /**
   * Records where the processor's time goes.
   * @returns JSON of a `.cpuprofile`
   * @throws ApiError 429; the signal's reason when aborted
   */
  async profile(seconds: number, signal: AbortSignal): Promise<string> {
    const release = this.#acquire()
    try {
      const { Session } = await import('node:inspector/promises')
      const session = new Session()
      session.connect()
      try {
        await session.post('Profiler.enable')
        await session.post('Profiler.start')
        await setTimeout(seconds * 1000, undefined, { signal, ref: false })
        const { profile } = await session.post('Profiler.stop')
        return JSON.stringify(profile)
      } finally {
        session.disconnect()
      }
    } finally {
      release()
    }
  }

  /** Returns a `.heapsnapshot`. It contains every value of the process, secrets included. @throws ApiError 429 */
  async heap(): Promise<Readable> {
    const release = this.#acquire()
    try {
      const { getHeapSnapshot } = await import('node:v8')
      return getHeapSnapshot().once('close', release)
    } catch (error) {
      release()
      throw error
    }
  }

  #acquire(): () => void {
    if (this.#isBusy)
      throw new ApiError('TooManyRequests', 'another profile or heap snapshot is being taken', {
        retryAfterSeconds: profilerDefaults.retryAfterSeconds,
      })
    this.#isBusy = true
    return () => {
      this.#isBusy = false
    }
  }
}
