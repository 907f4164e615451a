import type { Breather } from '@setpoint/controller-runtime'

/**
 * Long work in short steps: a generator that yields, again and again, how many entries it has handled since it last
 * did. Whoever runs it decides when to let others in between (`Turns`), and tests count what it yields.
 *
 * An entry handled is one step along an index, one object tested or one object put into place in a sort: a few tenths
 * of a microsecond. What takes as long as several counts as several.
 */
export type Work<T> = Generator<number, T, void>

export const workDefaults = Object.freeze({
  /** Entries handled at once: few enough to stop in time (some 0.3 ms), enough that stopping costs nothing. */
  stride: 1024,
})

/** Does the work to its end at once. */
export function finish<T>(work: Work<T>): T {
  for (;;) {
    const { done, value } = work.next()
    if (done) return value
  }
}

/** Does the work to its end, with pauses. */
export async function finishBreathing<T>(work: Work<T>, breather: Breather): Promise<T> {
  for (;;) {
    const { done, value } = work.next()
    if (done) return value
    const pause = breather.pause()
    if (pause !== undefined) await pause
  }
}
