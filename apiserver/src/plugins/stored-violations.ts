import { type Clock, sleep, systemClock } from '@setpoint/controller-runtime'
import type { ObjectKey } from '@setpoint/controller-runtime/api'
import { type Entry, keyOfEntry, type ModelCache } from '../cache/index.ts'
import { type BareObject, decodeWire, hookViolationsOf, type ServedModel } from '../model/index.ts'
import { serverUser } from '../registry/index.ts'
import type { ReportedProblem } from './index-report.ts'
import { redactedMessageOf } from './set-up.ts'

export const violationDefaults = Object.freeze({
  /** Milliseconds of checks before a pause. */
  turnMs: 5,
  /** The part of the time that the checks take, so that requests have the rest. */
  share: 0.1,
  /** Steps of the rules on one object. Nothing interrupts them, so the bound is a tenth of that of a write. */
  steps: 50_000,
  /** Objects that are tracked. The search ends there. */
  tracked: 10_000,
  /** Names in the report. */
  shown: 5,
  /** Characters of the reason for one object. A hook's error may have any length. */
  reasonLength: 300,
  /** Milliseconds from a change to its report. */
  intervalMs: 1_000,
})

/** Why a stored object is in the report. */
interface Finding {
  /** False if the object could not be checked. */
  readonly isViolation: boolean
  readonly why: string
}

/**
 * Finds the stored objects that violate the schema, its rules or the `validate` hook, which have become stricter since
 * they were written. Rules that use `oldSelf` are about changes, so they are left out. Searches once in the background
 * when the plugin starts, and then follows the changes of the objects found: writes of this release cannot add others.
 *
 *     checking ──end──▶ idle ──an object found has changed──▶ waiting ──intervalMs──▶ checking
 */
export class StoredViolations {
  readonly #cache: ModelCache
  readonly #signal: AbortSignal
  readonly #clock: Clock
  readonly #changed: (problem: ReportedProblem | undefined) => void
  readonly #found = new Map<ObjectKey, Finding>()
  /** Objects found that have changed since. */
  readonly #stale = new Set<ObjectKey>()
  #state: 'checking' | 'idle' | 'waiting' = 'checking'
  /** True if the search has ended at the bound. */
  #isCut = false

  constructor(parts: {
    cache: ModelCache
    signal: AbortSignal
    /** Called with the problem after each check; undefined if no object violates anything. */
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
      changed: ({ previous }) => {
        const key = previous && keyOfEntry(previous)
        if (key !== undefined && this.#found.has(key)) this.#recheck([key])
      },
      reset: () => this.#recheck(this.#found.keys()),
    })
    this.#signal.addEventListener('abort', stop, { once: true })
    await this.#checkAll(this.#storedKeys())
  }

  *#storedKeys(): Generator<ObjectKey> {
    const cursor = this.#cache.store.snapshot().objects.cursor(0)
    for (let entry = cursor.value; entry !== undefined; cursor.next(), entry = cursor.value) {
      this.#isCut = this.#found.size >= violationDefaults.tracked
      if (this.#isCut) return
      yield keyOfEntry(entry)
    }
  }

  #recheck(keys: Iterable<ObjectKey>): void {
    for (const key of keys) this.#stale.add(key)
    if (this.#state !== 'idle' || this.#stale.size === 0 || this.#signal.aborted) return
    this.#state = 'waiting'
    const check = () => {
      const stale = [...this.#stale]
      this.#stale.clear()
      void this.#checkAll(stale)
    }
    this.#clock.setTimeout(check, violationDefaults.intervalMs, { unref: true })
  }

  /** Checks objects at the pace of `share` and reports. Returns early when aborted. */
  async #checkAll(keys: Iterable<ObjectKey>): Promise<void> {
    const { turnMs, share } = violationDefaults
    this.#state = 'checking'
    let since = this.#clock.monotonic()
    for (const key of keys) {
      if (this.#signal.aborted) return
      // Its present state: it may have changed since the snapshot.
      this.#check(key, this.#cache.store.get(key))
      const tookMs = this.#clock.monotonic() - since
      if (tookMs < turnMs) continue
      await sleep(this.#clock, tookMs / share - tookMs, this.#signal).catch(() => {})
      since = this.#clock.monotonic()
    }
    if (this.#signal.aborted) return
    this.#changed(this.#problem())
    this.#state = 'idle'
    this.#recheck([])
  }

  #check(key: ObjectKey, entry: Entry | undefined): void {
    const isReadable = entry !== undefined && entry.unconverted === undefined
    const finding = isReadable ? findingOf(this.#cache.served, decodeWire(entry.bytes)) : undefined
    if (finding === undefined) this.#found.delete(key)
    else this.#found.set(key, { ...finding, why: finding.why.slice(0, violationDefaults.reasonLength) })
  }

  #problem(): ReportedProblem | undefined {
    if (this.#found.size === 0) return undefined
    const of = 'the schema or the rules of the kind'
    const violating = this.#describe(true, { one: `violates ${of}`, more: `violate ${of}` })
    const unchecked = this.#describe(false, { one: 'could not be checked', more: 'could not be checked' })
    return {
      source: `stored objects of ${this.#cache.served.resource}`,
      message: [violating, unchecked].filter(text => text !== undefined).join('; '),
    }
  }

  #describe(isViolation: boolean, what: { one: string; more: string }): string | undefined {
    const found = [...this.#found].filter(([, finding]) => finding.isViolation === isViolation)
    if (found.length === 0) return undefined
    const first = found
      .slice(0, violationDefaults.shown)
      .map(([key, { why }]) => `${JSON.stringify(key)} (${why})`)
    const subject = found.length === 1 ? `stored object ${what.one}` : `stored objects ${what.more}`
    const count = `${this.#isCut ? 'at least ' : ''}${found.length} ${subject}`
    const more = found.length > first.length ? `, and ${found.length - first.length} more` : ''
    return `${count}: ${first.join(', ')}${more}`
  }
}

/** Returns the first violation of an object, as far as it does not depend on a change. */
function findingOf(served: ServedModel, object: BareObject): Finding | undefined {
  const { schemas } = served
  const [broken] = schemas.validate(object)
  if (broken !== undefined) return { isViolation: true, why: `${broken.field} ${broken.message}` }
  if (schemas.rules !== undefined) {
    const { state, isComplete } = schemas.rules.validateState(object, violationDefaults.steps)
    const [violation] = state
    if (violation !== undefined) return { isViolation: true, why: `${violation.field}: ${violation.message}` }
    if (!isComplete) {
      return { isViolation: false, why: `its rules take more than ${violationDefaults.steps} steps` }
    }
  }
  try {
    const [violation] = hookViolationsOf(served, object, serverUser)
    return violation && { isViolation: true, why: `${violation.field}: ${violation.message}` }
  } catch (error) {
    return { isViolation: false, why: `the validate hook failed: ${redactedMessageOf(error)}` }
  }
}
