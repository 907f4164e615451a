import { isApiError, type ObjectKey } from '@setpoint/controller-runtime/api'
import type { ServedModel } from '../model/index.ts'
import type { Registry } from './registry.ts'
import type { Deletion, WriteOptions, WriteResult } from './write-options.ts'

export const deleteAllDefaults = Object.freeze({
  /** Objects deleted at a time: enough for a commit of the embedded store, and for etcd's latency. */
  concurrency: 32,
})

interface Deletions {
  readonly registry: Pick<Registry, 'delete'>
  readonly served: ServedModel
  readonly keys: Iterable<ObjectKey>
  readonly deletion: Deletion | ((at: number) => Deletion)
  /** Whether objects that do not meet the preconditions are left out, instead of ending the work. Default false. */
  readonly leavesChanged?: boolean
  readonly options: WriteOptions
  /** Waits for the caller's turn before each deletion. Returns undefined if the caller has it. Default: no wait. */
  readonly turn?: () => Promise<void> | undefined
  /** Called with the result of each deletion, and the position of its key. */
  readonly deleted: (result: WriteResult, at: number) => void
}

/**
 * Deletes objects, many at the same time, each by itself. Leaves out those that no longer exist. Starts no further
 * deletion after one has failed or the signal is aborted, and ends when all that have started have ended.
 * @throws the first error; the signal's reason
 */
export async function deleteAll(deletions: Deletions): Promise<void> {
  const { registry, served, keys, deletion, leavesChanged = false, turn, deleted } = deletions
  // Deletions that have started are short, and a signal warns of many listeners.
  const { signal, ...given } = deletions.options
  const options = { ...given, isOfCollection: true }
  const queue = keys[Symbol.iterator]()
  let started = 0
  let failure: { readonly error: unknown } | undefined
  const work = async () => {
    while (failure === undefined) {
      try {
        await turn?.()
        signal?.throwIfAborted()
        if (failure !== undefined) return
        const next = queue.next()
        if (next.done) return
        const at = started++
        const wanted = typeof deletion === 'function' ? deletion(at) : deletion
        deleted(await registry.delete(served, next.value, wanted, options), at)
      } catch (error) {
        const isLeft = isApiError(error, 'NotFound') || (leavesChanged && isApiError(error, 'Conflict'))
        if (!isLeft) failure ??= { error }
      }
    }
  }
  await Promise.all(Array.from({ length: deleteAllDefaults.concurrency }, work))
  if (failure !== undefined) throw failure.error
}
