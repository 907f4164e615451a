import { type Clock, sleep, systemClock } from '@setpoint/controller-runtime'
import type { ObjectKey } from '@setpoint/controller-runtime/api'
import { type Entry, keyOfEntry, type ModelCache } from '../cache/index.ts'
import { decodeWire } from '../model/index.ts'
import type { ReportedProblem } from './index-report.ts'

export const violationDefaults = Object.freeze({
  /** Objects checked before a pause. */
  objectsPerTurn: 200,
  /** Milliseconds of a pause, so that the check takes a small part of the processor. */
  pauseMs: 20,
  /** Violating objects that are tracked. The search ends there. */
  tracked: 10_000,
  /** Names in the report. */
  shown: 5,
  /** Milliseconds from a change to its report. */
  intervalMs: 1_000,
})

/**
 * Finds the stored objects that violate the schema, which has become stricter since they were written. Searches once in
 * the background when the plugin starts, and then follows the changes of the objects found: writes cannot add others.
 */
export class StoredViolations {
  readonly #cache: ModelCache
  readonly #signal: AbortSignal
  readonly #clock: Clock
  readonly #changed: (problem: ReportedProblem | undefined) => void
  /** The first violation of each object. */
  readonly #found = new Map<ObjectKey, string>()
  #isScheduled = false

  constructor(parts: {
    cache: ModelCache
    signal: AbortSignal
    /** Called with the problem after it may have changed; undefined if no object violates the schema. */
    changed: (problem: ReportedProblem | undefined) => void
    clock?: Clock
  }) {
    this.#cache = parts.cache
    this.#signal = parts.signal
    this.#changed = parts.changed
    this.#clock = parts.clock ?? systemClock
  }

  /** Resolves at the end of the search. Never rejects. */
  async run(): Promise<void> {
    const stop = this.#cache.observe({
      changed: ({ previous, next }) => {
        const key = previous && keyOfEntry(previous)
        if (key === undefined || !this.#found.has(key)) return
        this.#check(key, next)
        this.#schedule()
      },
      reset: () => {
        for (const key of [...this.#found.keys()]) this.#check(key, this.#cache.store.get(key))
        this.#schedule()
      },
    })
    this.#signal.addEventListener('abort', stop, { once: true })
    const { objectsPerTurn, pauseMs, tracked } = violationDefaults
    const cursor = this.#cache.store.snapshot().objects.cursor(0)
    let checked = 0
    for (let entry = cursor.value; entry !== undefined; cursor.next(), entry = cursor.value) {
      if (this.#found.size >= tracked) break
      // It may have changed since the snapshot.
      const key = keyOfEntry(entry)
      this.#check(key, this.#cache.store.get(key))
      if (++checked % objectsPerTurn > 0) continue
      await sleep(this.#clock, pauseMs, this.#signal).catch(() => {})
      if (this.#signal.aborted) return
    }
    if (this.#found.size > 0) this.#report()
  }

  #check(key: ObjectKey, entry: Entry | undefined): void {
    const [violation] =
      entry === undefined || entry.unconverted !== undefined
        ? []
        : this.#cache.served.schemas.validate(decodeWire(entry.bytes))
    if (violation === undefined) this.#found.delete(key)
    else this.#found.set(key, `${violation.field} ${violation.message}`)
  }

  #schedule(): void {
    if (this.#isScheduled || this.#signal.aborted) return
    this.#isScheduled = true
    this.#clock.setTimeout(
      () => {
        this.#isScheduled = false
        if (!this.#signal.aborted) this.#report()
      },
      violationDefaults.intervalMs,
      { unref: true },
    )
  }

  #report(): void {
    const { size } = this.#found
    const { shown, tracked } = violationDefaults
    if (size === 0) {
      this.#changed(undefined)
      return
    }
    const first = [...this.#found].slice(0, shown).map(([key, why]) => `${JSON.stringify(key)} (${why})`)
    const count = `${size >= tracked ? 'at least ' : ''}${size} stored ${size === 1 ? 'object violates' : 'objects violate'}`
    const more = size > first.length ? `, and ${size - first.length} more` : ''
    this.#changed({
      source: `schema of ${this.#cache.served.resource}`,
      message: `${count} the schema: ${first.join(', ')}${more}`,
    })
  }
}
