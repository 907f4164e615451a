import type { Yielder } from '@setpoint/controller-runtime/internal'

/**
 * Long work in short steps: a generator that yields the number of entries handled since its last yield. Its runner
 * (`FairScheduler`) decides when to let other work run. Tests count the yielded entries.
 *
 * An entry handled is one step along an index, one object tested, or one object put into place in a sort: a few tenths
 * of a microsecond. Work that takes as long as several entries counts as several.
 */
export type Work<T> = Generator<number, T, void>

/** The caller of long work. */
export interface WorkOwner {
  /** The name of the user who asked. */
  readonly caller: string
  /** Aborted when the caller no longer wants the result. */
  readonly signal?: AbortSignal
}

export const workDefaults = Object.freeze({
  /** Entries handled in one step of some 0.3 ms: short enough to stop in time, long enough to make stopping cheap. */
  stride: 1024,
  /**
   * Turns of the event loop from one that does long work to the next. libuv accepts one connection in each turn, so
   * without turns between them a crowd of new connections would be accepted at the pace of the work.
   */
  turns: 16,
})

/** Does all of the work without a pause. */
export function finish<T>(work: Work<T>): T {
  for (;;) {
    const { done, value } = work.next()
    if (done) return value
  }
}

/** Does all of the work, with pauses. */
export async function finishYielding<T>(work: Work<T>, yielder: Yielder): Promise<T> {
  for (;;) {
    const { done, value } = work.next()
    if (done) return value
    const pause = yielder.pause()
    if (pause !== undefined) await pause
  }
}
