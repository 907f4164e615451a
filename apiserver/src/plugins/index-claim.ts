import { type Clock, sleep, systemClock } from '@setpoint/controller-runtime'
import type { Logger } from '../log/index.ts'
import type { ServedModel } from '../model/index.ts'
import {
  checkStoredVersions,
  claimStoredVersion,
  type ModelRecords,
  RebuildSupersededError,
  rebuildReservations,
  type Standing,
} from '../registry/index.ts'
import { OutcomeUnknownError, type Storage, StoreFullError, StoreUnavailableError } from '../storage/index.ts'

export const claimDefaults = Object.freeze({
  /** Milliseconds between attempts while the store is unavailable or full. */
  retryMs: 500,
})

interface IndexClaim {
  readonly storage: Storage
  readonly records: ModelRecords
  readonly served: ServedModel
  /** The version of the plugin that declares the model. Default 0.0.0. */
  readonly pluginVersion?: string
  readonly log: Logger
  readonly signal: AbortSignal
  readonly clock?: Clock
  /** Called with the number of objects done so far. Starts over after an outage of the store. */
  readonly onProgress?: (objects: number) => void
}

/**
 * Checks that this server can read every stored object of a model. Changes nothing. Waits while the store is
 * unavailable.
 * @throws UnreadableVersionError, ScopeChangedError; when aborted
 */
export async function checkStored(claim: IndexClaim): Promise<void> {
  await untilStoreAnswers(claim, () => checkStoredVersions(claim))
  await untilStoreAnswers(claim, () => claim.records.checkScope(claim.served))
}

/**
 * Puts a model's unique indexes in force when a server starts. If another set was in force, or a server stopped while
 * it computed the reservations, they are computed first. Waits while the store is unavailable.
 *
 * Claims the model once: if another server claims it during that time, the other server's set stands. Likewise for the
 * version that objects are stored in.
 * @returns the standing of this server's set. @throws UnreadableVersionError, ScopeChangedError; when aborted
 */
export async function claimIndexes(claim: IndexClaim): Promise<Standing> {
  const stored = { ...claim, by: claim.pluginVersion ?? '0.0.0' }
  await untilStoreAnswers(claim, () => checkStoredVersions(claim))
  await claimUniqueIndexes(claim)
  return untilStoreAnswers(claim, () => claimStoredVersion(stored))
}

async function claimUniqueIndexes(claim: IndexClaim): Promise<Standing> {
  const { storage, records, served, log, signal, onProgress } = claim
  const { resource } = served
  const { standing, recompute } = await untilStoreAnswers(claim, () => records.establish(served))
  if (standing.name === 'superseded')
    log.warn({ resource, why: standing.why }, 'the unique indexes of this server are not in force')
  if (recompute === undefined) return standing
  log.info({ resource }, 'the unique indexes have changed, computing reservations')
  const record = { key: records.keyOf(served), revision: recompute }
  const onCorrupt = (key: string, error: unknown) =>
    log.error({ key, err: error }, 'failed to decode a stored value, leaving it')
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
    log.info({ resource, objects }, 'computed the reservations of the unique indexes')
  } catch (error) {
    if (!(error instanceof RebuildSupersededError)) throw error
    log.info({ resource }, 'another server has claimed the unique indexes')
    return untilStoreAnswers(claim, () => records.check(served))
  }
  return untilStoreAnswers(claim, () => records.complete(served, recompute))
}

/** Retries while the store is unavailable or full. Other errors are thrown. */
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
        log.warn(
          { resource: served.resource, err: error },
          'failed to reach the store for the unique indexes, retrying',
        )
      await sleep(clock, claimDefaults.retryMs, signal)
    }
  }
}
