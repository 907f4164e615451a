import { setTimeout as delay } from 'node:timers/promises'
import { type Logger, parseRevision, type Revision } from '@setpoint/controller-runtime'
import { zeroRevision } from '@setpoint/controller-runtime/internal'
import type { Storage } from './contract.ts'

export const compactorDefaults = Object.freeze({
  /** Milliseconds between compactions, as in Kubernetes. History is kept for one to two intervals. */
  intervalMs: 5 * 60_000,
})

/** Coordinates the servers of a store. Its value is the revision that the next round compacts to. */
const compactionKey = 'compaction'

/**
 * Compacts the store at each interval, as the kube-apiserver does. In each round the servers try to update
 * `compactionKey` to the current revision. The server that succeeds compacts to the value before, so history is kept for
 * one to two intervals.
 *
 * Resolves when the signal is aborted. Retries failures in the next round.
 */
export async function compactRegularly(
  storage: Storage,
  log: Logger,
  signal: AbortSignal,
  intervalMs: number = compactorDefaults.intervalMs,
): Promise<void> {
  let seen: Revision | undefined
  while (!signal.aborted) {
    try {
      seen = await compactOnce(storage, seen, log, signal)
    } catch (error) {
      if (!signal.aborted)
        log.warn({ err: error }, 'failed to compact the history, retrying in the next round')
    }
    await delay(intervalMs, undefined, { signal, ref: false }).catch(() => {})
  }
}

/**
 * Runs one round.
 * @param seen the revision of `compactionKey` in the round before. If it has changed, another server has compacted.
 * @returns the revision of `compactionKey`.
 */
async function compactOnce(
  storage: Storage,
  seen: Revision | undefined,
  log: Logger,
  signal: AbortSignal,
): Promise<Revision> {
  const { pair, revision: present } = await storage.get(compactionKey, { signal })
  const recorded = pair?.modRevision ?? zeroRevision
  // Another server has compacted in this round, or this server has just started: wait for a full interval.
  if (seen === undefined || recorded !== seen) {
    if (pair !== undefined) return recorded
  }
  const result = await storage.transact(
    {
      compares: [{ key: compactionKey, modRevision: recorded }],
      onSuccess: [{ type: 'put', key: compactionKey, value: Buffer.from(String(present)) }],
    },
    { signal },
  )
  if (!result.succeeded) return recorded
  if (pair !== undefined) {
    // Earlier versions of Setpoint wrote more numbers after the first one.
    const [first = ''] = pair.value.toString().split(' ', 1)
    const oldest = parseRevision(first)
    await storage.compact(oldest, { signal })
    log.debug({ revision: oldest }, 'compacted the history')
  }
  return result.revision
}
