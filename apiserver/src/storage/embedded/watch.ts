import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Revision } from '@setpoint/controller-runtime/api'
import { type Change, CompactedError, type WatchBatch, type WatchOptions } from '../contract.ts'
import type { EmbeddedBounds } from './defaults.ts'
import type { HistoryTail } from './history-tail.ts'
import type { RevisionChanges } from './rows.ts'
import type { StoreFile } from './store-file.ts'

/**
 * Follows the log from any revision that is not compacted. A watch is a cursor without a queue.
 *
 *     reading --(nothing after the cursor)--> waiting --(a commit is published)--> reading
 *        |                                       |
 *        +------- aborted, store closed: ends ---+
 *        +------- cursor compacted: CompactedError
 *
 * The consumer pulls, so a slow watch costs no memory. A watch that falls behind reads from the file instead of memory,
 * and ends with CompactedError once its revision is compacted.
 */
export class Watches {
  readonly #file: StoreFile
  readonly #tail: HistoryTail
  readonly #bounds: EmbeddedBounds
  readonly #waiting = new Set<() => void>()
  #closed = false

  constructor(file: StoreFile, tail: HistoryTail, bounds: EmbeddedBounds) {
    this.#file = file
    this.#tail = tail
    this.#bounds = bounds
  }

  /** Wakes the watches. Call it when the state of the file has changed. */
  announce(): void {
    for (const wake of this.#waiting) wake()
  }

  /** Ends every watch. */
  close(): void {
    this.#closed = true
    this.announce()
  }

  async *watch(
    prefix: string,
    { after, until, signal }: WatchOptions,
  ): AsyncGenerator<WatchBatch, void, undefined> {
    let wake = () => {}
    const onWake = () => wake()
    this.#waiting.add(onWake)
    signal.addEventListener('abort', onWake)
    try {
      for (let delivered = after; !signal.aborted && !this.#closed; ) {
        const { current, compacted } = this.#file.state
        if (delivered < compacted)
          throw new CompactedError(`changes after revision ${delivered} have been compacted`)
        if (until !== undefined && delivered >= until) return
        if (delivered >= current) {
          await new Promise<void>(resolve => {
            wake = resolve
          })
          continue
        }
        const tail = this.#tail.after(delivered)
        const revisions = tail ?? this.#file.historyAfter(delivered)
        const batch = this.#gather(prefix, delivered, revisions, until !== undefined)
        delivered = batch.revision
        yield batch
        // Keeps a consumer that never waits from blocking the event loop while it catches up.
        if (delivered < current) await nextTurn()
      }
    } finally {
      this.#waiting.delete(onWake)
      signal.removeEventListener('abort', onWake)
    }
  }

  /** Returns the next revisions, up to the bounds of a batch. */
  #gather(
    prefix: string,
    after: Revision,
    revisions: Iterable<RevisionChanges>,
    withPrevious: boolean,
  ): WatchBatch {
    const changes: Change[] = []
    let revision = after
    let count = 0
    let bytes = 0
    for (const next of revisions) {
      const found = changes.length
      for (const {
        key,
        revision,
        value,
        previous,
        createRevision,
        key: { length },
      } of next.changes) {
        if (!key.startsWith(prefix)) continue
        const before = withPrevious ? previous : undefined
        changes.push({ key, revision, value, previous: before, createRevision })
        bytes += length + (value?.length ?? 0) + (before?.length ?? 0)
      }
      // A revision that does not fit is read again for the next batch.
      if (bytes > this.#bounds.watchBytes && found > 0) {
        changes.length = found
        break
      }
      revision = next.revision
      if (++count === this.#bounds.watchRevisions || bytes > this.#bounds.watchBytes) break
    }
    return { changes, revision }
  }
}
