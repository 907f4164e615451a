import { setTimeout as delay } from 'node:timers/promises'
import { type Logger, parseRevision, type Revision } from '@setpoint/controller-runtime'
import { zeroRevision } from '@setpoint/controller-runtime/internal'
import type { Storage } from './contract.ts'

export const compactorDefaults = Object.freeze({
  /** Milliseconds between compactions, as in Kubernetes: history is kept for one to two of them. */
  intervalMs: 5 * 60_000,
})

/** The key by which the servers of one store agree: it holds the revision that the next round may compact to. */
export const compactionKey = 'compaction'

/**
 * Makes the store forget its old history, one server for all: each round the servers try to move the recorded
 * revision on to the present, and the one that succeeds compacts to what was recorded a round before. So everything
 * of the last interval stays, and nothing stays longer than two. (Kubernetes' way.)
 *
 * Resolves when the signal is aborted; a store that is away is asked again in the next round.
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
      if (!signal.aborted) log.warn({ err: error }, 'the history could not be compacted, trying again later')
    }
    await delay(intervalMs, undefined, { signal, ref: false }).catch(() => {})
  }
}

/**
 * One round. `seen` is the revision of the record as this server last knew it: whoever has moved it since has
 * compacted already.
 * @returns the revision of the record now.
 */
async function compactOnce(
  storage: Storage,
  seen: Revision | undefined,
  log: Logger,
  signal: AbortSignal,
): Promise<Revision> {
  const { pair, revision: present } = await storage.get(compactionKey, { signal })
  const recorded = pair?.modRevision ?? zeroRevision
  // Somebody else was quicker this round, or this is the first one of this server: wait for a full interval.
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
    // Earlier versions wrote more numbers after the first one.
    const [first = ''] = pair.value.toString().split(' ', 1)
    const oldest = parseRevision(first)
    await storage.compact(oldest, { signal })
    log.debug({ revision: oldest }, 'compacted the history')
  }
  return result.revision
}
