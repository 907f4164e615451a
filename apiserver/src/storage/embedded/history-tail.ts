import type { Revision } from '@setpoint/controller-runtime/api'
import { type RevisionChanges, revisionsOf, type Segment } from './rows.ts'

/**
 * The newest revisions of the history, decoded once for all watches. Bounded by count and bytes; older revisions are in
 * the file.
 */
export class HistoryTail {
  readonly #maxRevisions: number
  readonly #maxBytes: number
  /** Consecutive revisions. Those before `#first` are evicted, and the array is cut from time to time. */
  #entries: (RevisionChanges | undefined)[] = []
  #first = 0
  #bytes = 0

  constructor(maxRevisions: number, maxBytes: number) {
    this.#maxRevisions = maxRevisions
    this.#maxBytes = maxBytes
  }

  push(segment: Segment): void {
    for (const entry of revisionsOf(segment, segment.first)) {
      this.#entries.push(entry)
      this.#bytes += entry.bytes
    }
    while (
      this.#entries.length - this.#first > this.#maxRevisions ||
      (this.#bytes > this.#maxBytes && this.#first < this.#entries.length)
    )
      this.#evict()
    if (this.#first > 1_000 && this.#first > this.#entries.length / 2) {
      this.#entries = this.#entries.slice(this.#first)
      this.#first = 0
    }
  }

  /** Returns the revisions after this one, or undefined if some of them are evicted. */
  after(revision: Revision): Iterable<RevisionChanges> | undefined {
    const oldest = this.#entries[this.#first]
    if (oldest === undefined || revision + 1 < oldest.revision) return undefined
    return this.#from(this.#first + revision + 1 - oldest.revision)
  }

  clear(): void {
    this.#entries = []
    this.#first = 0
    this.#bytes = 0
  }

  *#from(index: number): Generator<RevisionChanges> {
    for (let i = index; i < this.#entries.length; i++) {
      const entry = this.#entries[i]
      if (entry !== undefined) yield entry
    }
  }

  #evict(): void {
    this.#bytes -= this.#entries[this.#first]?.bytes ?? 0
    this.#entries[this.#first] = undefined
    this.#first++
  }
}
