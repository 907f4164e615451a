import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Revision } from '@setpoint/controller-runtime/api'
import { compareCodePoints } from '@setpoint/controller-runtime/internal'
import { LRUCache } from 'lru-cache'
import { CompactedError, type KeyValue } from '../contract.ts'
import { encodeKey } from './keys.ts'
import { toKeyValue } from './rows.ts'
import type { StoreFile } from './store-file.ts'

/** Revisions to read before yielding to the event loop. */
const revisionsPerTurn = 1_000

/**
 * The state at a past revision: the current state with the later changes undone.
 *
 * The first later change of a key has the key's pair at the past revision as its previous pair. Only the revision of
 * that change is kept, so memory grows with the number of changed keys and not with the size of their values. The state
 * catches up before each page, so writes may happen between pages.
 */
export class PastState {
  readonly #file: StoreFile
  readonly #revision: Revision
  #upTo: Revision
  /** The revision of the first later change by key; undefined if the key did not exist at the past revision. */
  readonly #undo = new Map<string, Revision | undefined>()
  /** The keys of `#undo` that existed. In ascending order if `#isSorted`. */
  readonly #keys: string[] = []
  #isSorted = true

  constructor(file: StoreFile, revision: Revision) {
    this.#file = file
    this.#revision = revision
    this.#upTo = revision
  }

  /**
   * Brings the state up to date until the next await.
   * @throws CompactedError if the revision has been compacted.
   */
  async catchUp(signal: AbortSignal | undefined): Promise<void> {
    for (;;) {
      signal?.throwIfAborted()
      const { current, compacted } = this.#file.state
      if (this.#revision < compacted) throw new CompactedError(`revision ${this.#revision} is compacted`)
      if (this.#upTo === current) return
      let count = 0
      for (const { revision, changes } of this.#file.historyAfter(this.#upTo)) {
        for (const { key, before } of changes) {
          if (this.#undo.has(key)) continue
          this.#undo.set(key, before && revision)
          if (before === undefined) continue
          this.#keys.push(key)
          this.#isSorted = false
        }
        this.#upTo = revision
        if (++count === revisionsPerTurn) break
      }
      if (this.#upTo < current) await nextTurn()
    }
  }

  /** Returns the pairs from `start` up to `end`, exclusive, in ascending order. Do not await while iterating. */
  *range(start: Buffer, end: Buffer | undefined): Generator<KeyValue> {
    const undone = this.#undoneFrom(start.toString('utf8'), end?.toString('utf8'))
    let next = undone.next()
    for (const { key, row } of this.#file.range(start, end)) {
      for (; !next.done && compareCodePoints(next.value, key) <= 0; next = undone.next())
        yield this.#pairOf(next.value)
      if (!this.#undo.has(key)) yield toKeyValue(key, row)
    }
    for (; !next.done; next = undone.next()) yield this.#pairOf(next.value)
  }

  *#undoneFrom(start: string, end: string | undefined): Generator<string, undefined> {
    const keys = this.#keys
    // Between two pages of a list under load. V8's TimSort takes linear time for a sorted list with a few more keys
    // behind it.
    if (!this.#isSorted) keys.sort(compareCodePoints)
    this.#isSorted = true
    let low = 0
    for (let high = keys.length; low < high; ) {
      const middle = (low + high) >>> 1
      const key = keys[middle]
      if (key !== undefined && compareCodePoints(key, start) < 0) low = middle + 1
      else high = middle
    }
    for (let i = low; i < keys.length; i++) {
      const key = keys[i]
      if (key === undefined || (end !== undefined && compareCodePoints(key, end) >= 0)) return undefined
      yield key
    }
    return undefined
  }

  #pairOf(key: string): KeyValue {
    const revision = this.#undo.get(key)
    const change = revision && this.#file.changesOf(revision).find(one => one.key === key)
    if (!change?.before)
      throw new Error(`the history of ${JSON.stringify(key)} has a gap at revision ${revision}`)
    return change.before
  }
}

/** Keeps recently used past states, so that the next page of a list does not read the history again. */
export class PastStates {
  readonly #file: StoreFile
  readonly #states: LRUCache<Revision, PastState>

  constructor(file: StoreFile, most: number) {
    this.#file = file
    this.#states = new LRUCache({ max: most })
  }

  /** @throws CompactedError if the revision has been compacted. */
  async at(revision: Revision, signal: AbortSignal | undefined): Promise<PastState> {
    const state = this.#states.get(revision) ?? new PastState(this.#file, revision)
    this.#states.set(revision, state)
    try {
      await state.catchUp(signal)
    } catch (error) {
      if (error instanceof CompactedError) this.#states.delete(revision)
      throw error
    }
    return state
  }
}

/** Returns the start of the range of keys with `prefix` that come after `after`. */
export function rangeStart(prefix: string, after: string | undefined, keyBytes: number): Buffer {
  const start = encodeKey(prefix)
  if (after === undefined) return start
  // No key is longer than `keyBytes`, so cutting the rest changes nothing.
  const successor = Buffer.concat([encodeKey(after), Buffer.of(0)]).subarray(0, keyBytes + 1)
  return Buffer.compare(successor, start) > 0 ? successor : start
}
