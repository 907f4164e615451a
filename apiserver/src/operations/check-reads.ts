import { toRevision } from '@setpoint/controller-runtime/internal'
import { type KeyValue, type Storage, storageLimits } from '../storage/index.ts'
import { checkDefaults } from './check-report.ts'

/** No key ever has this revision. */
const never = toRevision(Number.MAX_SAFE_INTEGER)

/**
 * Reads keys as they are at one revision, undefined for those that do not exist. A transaction whose comparison fails
 * reads, and needs no history of the store, unlike a list at a past revision.
 * @param keys at most `storageLimits.transactionItems`
 */
export async function readTogether(
  storage: Storage,
  keys: readonly string[],
  signal: AbortSignal,
): Promise<readonly (KeyValue | undefined)[]> {
  if (keys.length > storageLimits.transactionItems) throw new RangeError(`too many keys: ${keys.length}`)
  const [first] = keys
  if (first === undefined) return []
  const result = await storage.transact(
    { compares: [{ key: first, modRevision: never }], onSuccess: [], onFailure: keys },
    { signal },
  )
  return result.succeeded ? [] : result.pairs
}

/** Runs `work` for slices of a list, a few at once. */
export async function inBatches<T>(
  items: readonly T[],
  size: number,
  work: (batch: readonly T[]) => Promise<void>,
): Promise<void> {
  const batches = Array.from({ length: Math.ceil(items.length / size) }, (_, at) =>
    items.slice(at * size, (at + 1) * size),
  )
  let next = 0
  const worker = async () => {
    for (let batch = batches[next++]; batch !== undefined; batch = batches[next++]) await work(batch)
  }
  await Promise.all(Array.from({ length: Math.min(checkDefaults.concurrency, batches.length) }, worker))
}
