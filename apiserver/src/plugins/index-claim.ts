import { type Clock, sleep, systemClock } from '@setpoint/controller-runtime'
import type { Logger } from '../log.ts'
import type { ServedModel } from '../model/served-model.ts'
import {
  RebuildSupersededError,
  rebuildReservations,
  type Standing,
  type UniqueIndexRecords,
} from '../registry/index.ts'
import { OutcomeUnknownError, type Storage, StoreFullError, StoreUnavailableError } from '../storage/index.ts'

export const claimDefaults = Object.freeze({
  /** Milliseconds between attempts while the store is away or full. */
  retryMs: 500,
})

export interface IndexClaim {
  readonly storage: Storage
  readonly records: UniqueIndexRecords
  readonly served: ServedModel
  readonly log: Logger
  readonly signal: AbortSignal
  readonly clock?: Clock
  /** Told how many objects have been settled so far; begins again where the store was away meanwhile. */
  readonly onProgress?: (objects: number) => void
}

/**
 * Puts a model's unique indexes in force at a server's start, and first computes what objects hold where another set
 * was in force or somebody has not finished computing it. Waits as long as the store is away.
 *
 * It claims the model once: where another server takes it over meanwhile, that server's set stands.
 * @returns how this server's set then stands. @throws when aborted.
 */
export async function claimIndexes(claim: IndexClaim): Promise<Standing> {
  const { storage, records, served, log, signal, onProgress } = claim
  const { resource } = served
  const { standing, recompute } = await untilStoreAnswers(claim, () => records.establish(served))
  if (standing.name === 'superseded')
    log.warn({ resource, why: standing.why }, 'the unique indexes of this version are not in force')
  if (recompute === undefined) return standing
  log.info({ resource }, 'the unique indexes have changed: what objects hold is being computed')
  const record = { key: records.keyOf(served), revision: recompute }
  const onCorrupt = (key: string, error: unknown) =>
    log.error({ key, err: error }, 'a stored value is no object and is left as it is')
  try {
    let objects = 0
    await untilStoreAnswers(claim, () => {
      objects = 0
      return rebuildReservations({
        storage,
        served,
        record,
        signal,
        onCorrupt,
        onProgress: more => {
          objects += more
          onProgress?.(objects)
        },
      })
    })
    log.info({ resource, objects }, 'what objects hold in unique indexes has been computed')
  } catch (error) {
    if (!(error instanceof RebuildSupersededError)) throw error
    log.info({ resource }, 'another server has changed the unique indexes meanwhile, or was quicker')
    return untilStoreAnswers(claim, () => records.check(served))
  }
  return untilStoreAnswers(claim, () => records.complete(served, recompute))
}

/** Tries again what failed because the store is away or full; a fault of anything else is thrown. */
async function untilStoreAnswers<T>(
  { served, signal, log, clock = systemClock }: IndexClaim,
  attempt: () => Promise<T>,
): Promise<T> {
  for (let failures = 0; ; failures++) {
    try {
      return await attempt()
    } catch (error) {
      signal.throwIfAborted()
      const passes =
        error instanceof StoreUnavailableError ||
        error instanceof OutcomeUnknownError ||
        error instanceof StoreFullError
      if (!passes) throw error
      if (failures === 0)
        log.warn({ resource: served.resource, err: error }, 'the unique indexes wait for the store')
      await sleep(clock, claimDefaults.retryMs, signal)
    }
  }
}
