import { setTimeout as delay } from 'node:timers/promises'
import { type Logger, parseRevision, type Revision } from '@setpoint/controller-runtime'
import { zeroRevision } from '@setpoint/controller-runtime/internal'
import { type Storage, StoreFullError } from './contract.ts'

export const compactorDefaults = Object.freeze({
  /** Milliseconds between compactions, as in Kubernetes. History is kept for one to two intervals. */
  intervalMs: 5 * 60_000,
  /** The same while the store is short of space. */
  shortIntervalMs: 60_000,
})

interface CompactorOptions {
  readonly storage: Storage
  /** Whether the store is short of space. */
  readonly space: { readonly isShort: boolean }
  readonly log: Logger
  readonly signal: AbortSignal
  readonly intervalMs?: number
  readonly shortIntervalMs?: number
}

/** Coordinates the servers of a store. Its value is the revision that the next round compacts to. */
const compactionKey = 'compaction'

/** What a round leaves for the next. */
interface Round {
  /** The revision of `compactionKey`. If it has changed in the next round, another server has compacted. */
  readonly seen: Revision
  /** The revision of the store. */
  readonly present: Revision
}

/**
 * Compacts the store at each interval, as the kube-apiserver does. In each round the servers try to update
 * `compactionKey` to the current revision. The server that succeeds compacts to the value before, so history is kept
 * for one to two intervals. A full store refuses the update; then each server compacts to the revision of its round
 * before.
 *
 * Resolves when the signal is aborted. Retries failures in the next round.
 */
export async function compactRegularly({
  storage,
  space,
  log,
  signal,
  intervalMs = compactorDefaults.intervalMs,
  shortIntervalMs = compactorDefaults.shortIntervalMs,
}: CompactorOptions): Promise<void> {
  let round: Round | undefined
  while (!signal.aborted) {
    try {
      round = await compactOnce(storage, round, log, signal)
    } catch (error) {
      if (!signal.aborted)
        log.warn({ err: error }, 'failed to compact the history, retrying in the next round')
    }
    for (let waitedMs = 0; waitedMs < intervalMs && !signal.aborted; ) {
      await delay(shortIntervalMs, undefined, { signal, ref: false }).catch(() => {})
      waitedMs += shortIntervalMs
      if (space.isShort) break
    }
  }
}

/** Runs one round. */
async function compactOnce(
  storage: Storage,
  before: Round | undefined,
  log: Logger,
  signal: AbortSignal,
): Promise<Round> {
  const { pair, revision: present } = await storage.get(compactionKey, { signal })
  const recorded = pair?.modRevision ?? zeroRevision
  const compact = async (revision: Revision) => {
    await storage.compact(revision, { signal })
    log.debug({ revision }, 'compacted the history')
  }
  // Another server has compacted in this round, or this server has just started: wait for a full interval.
  if (recorded !== before?.seen && pair !== undefined) return { seen: recorded, present }
  try {
    const result = await storage.transact(
      {
        compares: [{ key: compactionKey, modRevision: recorded }],
        onSuccess: [{ type: 'put', key: compactionKey, value: Buffer.from(String(present)) }],
      },
      { signal },
    )
    if (!result.succeeded) return { seen: recorded, present }
    if (pair !== undefined) {
      // Earlier versions of Setpoint wrote more numbers after the first one.
      const [first = ''] = pair.value.toString().split(' ', 1)
      await compact(parseRevision(first))
    }
    return { seen: result.revision, present }
  } catch (error) {
    if (!(error instanceof StoreFullError)) throw error
    if (before !== undefined) await compact(before.present)
    return { seen: recorded, present }
  }
}
