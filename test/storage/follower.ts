import { type Revision, zeroRevision } from '@setpoint/controller-runtime/api'
import { expect } from 'vitest'
import type { Change, Storage, WatchBatch } from '../../apiserver/src/storage/index.ts'
import { byBytes } from './operations.ts'

/** Milliseconds that a test waits for something that the contract promises. */
const patienceMs = 60_000

export async function within<T>(promise: Promise<T>, what: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new Error(`timed out after ${patienceMs} ms waiting for ${what}`)),
      patienceMs,
    )
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}

export async function drain(batches: AsyncIterable<WatchBatch>): Promise<void> {
  for await (const _ of batches);
}

/** Returns the batches of a watch without an end up to `until`, a revision with a change under the prefix. */
export async function collectBatches(
  storage: Storage,
  prefix: string,
  after: Revision,
  until: Revision,
): Promise<WatchBatch[]> {
  const watch = follow(storage, prefix, after)
  try {
    await watch.reaches(until)
  } finally {
    await watch.stop().catch(() => {})
  }
  return watch.batches
}

/**
 * Returns the changes up to `until` of a watch that ends there. A watch without an end must deliver the same changes,
 * without the values before.
 */
export async function collect(
  storage: Storage,
  prefix: string,
  after: Revision,
  until: Revision,
): Promise<Change[]> {
  const live = sortedChanges(await collectBatches(storage, prefix, after, until))
  const batches: WatchBatch[] = []
  const { signal } = new AbortController()
  const replay = async () => {
    for await (const batch of storage.watch(prefix, { after, until, signal })) batches.push(batch)
  }
  await within(replay(), `the end of a watch at revision ${until}`)
  const upToEnd = (changes: readonly Change[]) => changes.filter(({ revision }) => revision <= until)
  const changes = upToEnd(sortedChanges(batches))
  expect(upToEnd(live)).toEqual(changes.map(change => ({ ...change, previous: undefined })))
  return changes
}

/** Orders changes by revision, then by key: the contract leaves the order within a revision open. */
function sortedChanges(batches: readonly WatchBatch[]): Change[] {
  const changes = batches.flatMap(batch => batch.changes)
  for (const [i, next] of changes.slice(1).entries())
    expect(next.revision).toBeGreaterThanOrEqual(changes[i]?.revision ?? zeroRevision)
  return changes.sort((a, b) => a.revision - b.revision || byBytes(a.key, b.key))
}

export interface Follower {
  readonly batches: WatchBatch[]
  changes(): Change[]
  /** Resolves once the watch has delivered this revision; rejects if the watch ends before. */
  reaches(revision: Revision): Promise<void>
  stop(): Promise<void>
}

export function follow(storage: Storage, prefix: string, after: Revision): Follower {
  const controller = new AbortController()
  const batches: WatchBatch[] = []
  let reached = after
  let wake = () => {}
  let ended = false
  const running = (async () => {
    try {
      for await (const batch of storage.watch(prefix, { after, signal: controller.signal })) {
        batches.push(batch)
        reached = batch.revision
        wake()
      }
    } finally {
      ended = true
      wake()
    }
  })()
  running.catch(() => {})
  return {
    batches,
    changes: () => sortedChanges(batches),
    async reaches(revision) {
      const arrival = async () => {
        while (reached < revision) {
          if (ended) {
            await running
            throw new Error(`the watch ended at revision ${reached}, before ${revision}`)
          }
          await new Promise<void>(resolve => {
            wake = resolve
          })
        }
      }
      await within(arrival(), `revision ${revision} of a watch`)
    },
    async stop() {
      controller.abort()
      await within(running, 'the end of an aborted watch')
    },
  }
}
