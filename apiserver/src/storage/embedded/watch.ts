import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Revision } from '@setpoint/controller-runtime/api'
import { type Change, CompactedError, type WatchBatch, type WatchOptions } from '../contract.ts'
import type { EmbeddedBounds } from './defaults.ts'
import type { HistoryTail } from './history-tail.ts'
import type { RevisionChanges } from './rows.ts'
import type { StoreFile } from './store-file.ts'

/**
 * Follows the log from any kept revision: a cursor per watch, and no queue.
 *
 *     reading --(nothing after the cursor)--> waiting --(a commit is published)--> reading
 *        |                                       |
 *        +------- aborted, store closed: ends ---+
 *        +------- cursor older than what is kept: CompactedError
 *
 * The consumer pulls: a watch that is not read costs its cursor only, however much is written, and falls back from
 * memory to the file and in the end to CompactedError.
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

  /** To be called when the file's state has moved on. */
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
          throw new CompactedError(`the changes after revision ${delivered} are not all kept`, compacted)
        if (until !== undefined && delivered >= until) return
        if (delivered >= current) {
          await new Promise<void>(resolve => {
            wake = resolve
          })
          continue
        }
        const tail = this.#tail.after(delivered)
        const batch = this.#gather(prefix, delivered, tail ?? this.#file.historyAfter(delivered))
        delivered = batch.revision
        yield batch
        // A consumer that never waits would otherwise keep everybody else from running while it catches up.
        if (delivered < current) await nextTurn()
      }
    } finally {
      this.#waiting.delete(onWake)
      signal.removeEventListener('abort', onWake)
    }
  }

  /** The next revisions, up to the bounds of a batch. */
  #gather(prefix: string, after: Revision, revisions: Iterable<RevisionChanges>): WatchBatch {
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
        changes.push({ key, revision, value, previous, createRevision })
        bytes += length + (value?.length ?? 0) + (previous?.length ?? 0)
      }
      // A revision that does not fit any more is read again for the next batch.
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
