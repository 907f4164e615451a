import { randomUUID } from 'node:crypto'
import { type Clock, sleep, systemClock } from '@setpoint/controller-runtime'
import { isRecord, type Revision, zeroRevision } from '@setpoint/controller-runtime/api'
import type { Logger } from '../log/index.ts'
import type { ServedModel, ServedVersion } from '../model/index.ts'
import {
  countVersions,
  type MigrationFailure,
  MigrationSupersededError,
  type ModelRecords,
  migrateStoredVersions,
  migrationsPrefix,
  type StoredVersions,
} from '../registry/index.ts'
import type { KeyValue, Storage, Transaction } from '../storage/index.ts'

export const versionMigrationDefaults = Object.freeze({
  /** Milliseconds between two looks at the record while no migration is pending. */
  idleMs: 5_000,
  /** Milliseconds between two looks at another server's migration, and between two notes of the own progress. */
  beatMs: 1_000,
  /** Another server's migration without a note for this many milliseconds is taken over. */
  expiryMs: 5_000,
  /** Milliseconds until objects that could not be migrated are tried again. */
  againMs: 10 * 60_000,
  /** Failures that are kept with the progress. */
  shownFailures: 20,
})

/** The progress of a migration, stored for all servers. */
export interface MigrationState {
  /** The name of the version that objects are migrated to. */
  readonly to: string
  /** The server that works on it. */
  readonly holder: string
  readonly total: number
  readonly done: number
  readonly failed: number
  /** The first failures. */
  readonly failures: readonly MigrationFailure[]
  readonly finished: boolean
}

interface Parts {
  readonly storage: Storage
  readonly records: ModelRecords
  readonly served: ServedModel
  readonly log: Logger
  readonly signal: AbortSignal
  readonly clock?: Clock
  /** Called with the progress when it has changed, on every server. */
  readonly changed: (state: MigrationState) => void
}

/**
 * Migrates the objects of one model to the stored version in force, in the background. Of all servers one works at a
 * time: the one whose note at `migrations/<group>/<plural>` is fresh. The others read the progress there, and one of
 * them takes over when the notes stop.
 *
 *     idle ──another version in the record──▶ counting ──note──▶ rewriting ──none left──▶ record drops the version
 *                                                 ▲                  │ failures: tried again after `againMs`
 *                                                 └──notes stopped───┘
 *
 * Two servers at once would only repeat work: see `migrateStoredVersions`.
 */
export class VersionMigration {
  readonly #parts: Parts
  readonly #clock: Clock
  readonly #id = randomUUID()
  /** The latest note, and when this server first saw it. */
  #seen: { readonly revision: Revision; readonly at: number } | undefined
  #isFirstTurn = true

  constructor(parts: Parts) {
    this.#parts = parts
    this.#clock = parts.clock ?? systemClock
  }

  /** Resolves when the signal is aborted. Never rejects. */
  async run(): Promise<void> {
    const { served, signal, log } = this.#parts
    // The only version can be neither the source nor the target of a conversion.
    if (served.versions.length === 1) return
    while (!signal.aborted) {
      let delayMs: number = versionMigrationDefaults.beatMs
      try {
        delayMs = await this.#turn()
      } catch (error) {
        if (signal.aborted) return
        if (!(error instanceof MigrationSupersededError))
          log.warn({ resource: served.resource, err: error }, 'failed to migrate stored versions, retrying')
      }
      await sleep(this.#clock, delayMs, signal).catch(() => {})
    }
  }

  /** Migrates if there is something to migrate. Returns the milliseconds until the next turn. */
  async #turn(): Promise<number> {
    const { storage, records, served, signal } = this.#parts
    const { idleMs, beatMs, expiryMs, againMs } = versionMigrationDefaults
    // The note is read first: a server that ends the migration between the two reads changes it, so `#note` fails
    // below.
    const { pair } = await storage.get(this.#key, { signal })
    const { stored, revision } = await records.storedVersions(served)
    const isFirstTurn = this.#isFirstTurn
    this.#isFirstTurn = false
    const state = pair && decodeState(pair.value)
    if (pair !== undefined && state !== undefined) this.#show(state, pair.modRevision)
    const to = served.versions.find(({ name }) => name === stored?.version)
    if (stored === undefined || to === undefined || stored.all.length === 1) return idleMs
    if (state?.to === to.name && state.finished) {
      // It has failures.
      if (!isFirstTurn && this.#noteAgeMs() < againMs) return idleMs
    } else if (state !== undefined && state.holder !== this.#id) {
      if (this.#noteAgeMs() < expiryMs) return beatMs
    }
    const isUnfinished = state?.to === to.name && (!state.finished || state.failed > 0)
    await this.#migrate({
      stored,
      recordRevision: revision,
      to,
      before: isUnfinished ? state : undefined,
      note: pair,
    })
    return 0
  }

  async #migrate({
    stored,
    recordRevision,
    to,
    before,
    note,
  }: {
    stored: StoredVersions
    recordRevision: Revision
    to: ServedVersion
    /** The progress before an interruption, or before failed objects are tried again. */
    before: MigrationState | undefined
    note: KeyValue | undefined
  }): Promise<void> {
    const { storage, records, served, signal, log } = this.#parts
    const { resource } = served
    const { beatMs, shownFailures } = versionMigrationDefaults
    const counts = await countVersions({ storage, served, signal })
    counts.delete(to.name)
    const left = [...counts.values()].reduce((sum, count) => sum + count, 0)
    // A server that was killed had migrated more than its last note says. So what is no longer left counts as done.
    const total = before === undefined ? left : Math.max(before.total, before.done + left)
    let state: MigrationState = {
      to: to.name,
      holder: this.#id,
      total,
      done: total - left,
      failed: 0,
      failures: [],
      finished: false,
    }
    let revision = await this.#note(state, note?.modRevision ?? zeroRevision)
    let notedAt = this.#clock.monotonic()
    log.info({ resource, to: to.name, total, done: state.done }, 'migrating stored objects')
    await migrateStoredVersions({
      storage,
      records,
      served,
      to,
      recordRevision,
      signal,
      clock: this.#clock,
      onProgress: async (migrated, failures) => {
        state = {
          ...state,
          done: state.done + migrated,
          failed: state.failed + failures.length,
          failures: [...state.failures, ...failures].slice(0, shownFailures),
        }
        if (this.#clock.monotonic() - notedAt < beatMs) return
        revision = await this.#note(state, revision)
        notedAt = this.#clock.monotonic()
      },
    })
    const { failed } = state
    // Objects that were deleted, written or migrated by other servers meanwhile are done, too.
    const all = Math.max(total, state.done + failed)
    const done = all - failed
    const finished = { ...state, total: all, done, finished: true }
    if (failed > 0) await this.#note(finished, revision)
    else {
      // With one transaction, because without the old version in the record no server would finish the note.
      const only = { ...stored, all: [stored.version] }
      const dropped = await records.changeStoredVersions(
        served,
        only,
        recordRevision,
        this.#noteWrite(finished, revision),
      )
      if (dropped === undefined)
        throw new MigrationSupersededError('the record or the note of stored versions has changed')
      this.#show(finished, dropped)
    }
    log.info({ resource, to: to.name, done, failed }, 'migrated stored objects')
  }

  get #key(): string {
    return migrationsPrefix + this.#parts.served.resource
  }

  /** Stores the progress. Returns its revision. @throws MigrationSupersededError if another server has taken over */
  async #note(state: MigrationState, modRevision: Revision): Promise<Revision> {
    const result = await this.#parts.storage.transact(this.#noteWrite(state, modRevision))
    if (!result.succeeded) throw new MigrationSupersededError('another server has taken over the migration')
    this.#show(state, result.revision)
    return result.revision
  }

  /** Returns the transaction that replaces the note of this revision. */
  #noteWrite(state: MigrationState, modRevision: Revision): Transaction {
    const key = this.#key
    return {
      compares: [{ key, modRevision }],
      onSuccess: [{ type: 'put', key, value: Buffer.from(JSON.stringify(state)) }],
    }
  }

  #show(state: MigrationState, revision: Revision): void {
    if (revision === this.#seen?.revision) return
    this.#seen = { revision, at: this.#clock.monotonic() }
    this.#parts.changed(state)
  }

  /** Returns how many milliseconds ago this server first saw the latest note. */
  #noteAgeMs(): number {
    return this.#seen === undefined ? 0 : this.#clock.monotonic() - this.#seen.at
  }
}

/** Returns undefined for a malformed value, which the next note replaces. */
function decodeState(value: Buffer): MigrationState | undefined {
  let state: unknown
  try {
    state = JSON.parse(value.toString())
  } catch {
    return undefined
  }
  if (!isRecord(state)) return undefined
  const { to, holder, total, done, failed, failures, finished } = state
  if (typeof to !== 'string' || typeof holder !== 'string' || typeof finished !== 'boolean') return undefined
  if (typeof total !== 'number' || typeof done !== 'number' || typeof failed !== 'number') return undefined
  return {
    to,
    holder,
    total,
    done,
    failed,
    finished,
    failures: Array.isArray(failures) ? failures.filter(isFailure) : [],
  }
}

function isFailure(value: unknown): value is MigrationFailure {
  return isRecord(value) && typeof value.name === 'string' && typeof value.message === 'string'
}
