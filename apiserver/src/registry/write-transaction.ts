import { type Revision, type StatusCause, zeroRevision } from '@setpoint/controller-runtime/api'
import { converting, filterReservations, quote, type ServedVersion, uniqueIndexName } from '../model/index.ts'
import type { Compare, KeyValue, Operation, Storage } from '../storage/index.ts'
import type { InForce, ModelRecords } from './model-record.ts'
import type { NamespaceBounds, Room } from './namespace-bounds.ts'
import { definitionEnding, valuesTaken, withApiErrors } from './refusals.ts'
import { holds } from './reservation-rebuild.ts'
import { timed } from './timed.ts'
import { decodeHolder, reservationKey } from './unique-index.ts'
import type { WriteAttempts } from './write-attempts.ts'
import type { WriteOptions } from './write-options.ts'
import { type PlannedReservation, planWrite, type Write, type WritePlan } from './write-plan.ts'

/** A write that is ready for its first transaction. */
export interface ReadyWrite {
  readonly write: Write
  readonly plan: WritePlan
  /** Undefined if the write does not compare the model's record. */
  readonly inForce: InForce | undefined
  readonly guard: Compare | undefined
  /** The room that the write has taken in its namespace, until `commit`. */
  readonly room: Room | undefined
}

export type Outcome =
  | { readonly stored: true; readonly revision: Revision }
  | { readonly stored: false; readonly current: KeyValue | undefined }

/**
 * Executes planned writes, each as one transaction. It compares the object's revision, the model's record, and
 * the absence of each unique value that the write takes. All methods reject with ApiError.
 */
export class WriteTransactions {
  readonly #storage: Storage
  readonly #records: ModelRecords
  readonly #bounds: NamespaceBounds | undefined

  constructor(storage: Storage, records: ModelRecords, bounds?: NamespaceBounds) {
    this.#storage = storage
    this.#records = records
    this.#bounds = bounds
  }

  /**
   * Prepares a write for `commit`, which must follow.
   * @throws ApiError 413 if the object is too large, 403 if its namespace has no room or its definition is being
   * deleted, 503 if this server's unique indexes are
   *   not in force or it does not know the stored version; ConversionError
   */
  async prepare(write: Write, { signal }: Pick<WriteOptions, 'signal'>): Promise<ReadyWrite> {
    const { served, indexed } = write
    let inForce = indexed ? await withApiErrors(this.#records.inForce(served)) : undefined
    // The definition may have been created again, which this server has not seen yet.
    if (write.previous === undefined && inForce?.isEnding)
      inForce = await withApiErrors(this.#records.refresh(served))
    checkEnding(write, inForce)
    const guard = await write.guard?.(false)
    const plan = await planOf(write, inForce?.stored ?? served.hub, signal)
    const room = write.growth && (await this.#bounds?.admit(write.growth, signal))
    return { write, plan, inForce, guard, room }
  }

  /**
   * Runs one write as one transaction. Retries only after a stale record or an orphaned reservation.
   * @returns the current object if it is not the one that the write started from
   */
  async commit(ready: ReadyWrite, options: WriteOptions, attempts: WriteAttempts): Promise<Outcome> {
    let outcome: Outcome | undefined
    try {
      outcome = await timed(options.times, 'storeMs', this.#transact(ready, options, attempts))
      return outcome
    } finally {
      if (outcome?.stored && !options.dryRun) ready.room?.stored(outcome.revision)
      else ready.room?.release()
    }
  }

  async #transact(ready: ReadyWrite, options: WriteOptions, attempts: WriteAttempts): Promise<Outcome> {
    const { write } = ready
    const { served, previous } = write
    const key = served.keyOf(write.key)
    const recordKey = this.#records.keyOf(served)
    const { signal } = options
    let { plan, inForce, guard } = ready
    const staleReservations = new Map<string, Revision>()
    for (;;) {
      const compares: Compare[] = [{ key, modRevision: previous?.revision ?? zeroRevision }]
      if (inForce !== undefined) compares.push({ key: recordKey, modRevision: inForce.revision })
      if (guard !== undefined) compares.push(guard)
      for (const reservation of plan.taken) {
        compares.push({
          key: reservation.key,
          modRevision: staleReservations.get(reservation.key) ?? zeroRevision,
        })
      }
      const onSuccess = options.dryRun ? [] : operationsOf(write, plan)
      const onFailure = compares.map(compare => compare.key)
      const result = await withApiErrors(
        this.#storage.transact({ compares, onSuccess, onFailure }, { signal }),
      )
      if (result.succeeded) return { stored: true, revision: result.revision }
      const now = new Map(
        result.pairs.flatMap(pair => (pair === undefined ? [] : [[pair.key, pair] as const])),
      )
      const current = now.get(key)
      if ((current?.modRevision ?? zeroRevision) !== (previous?.revision ?? zeroRevision))
        return { stored: false, current }
      await attempts.pause()
      if (inForce !== undefined && now.get(recordKey)?.modRevision !== inForce.revision) {
        const { stored } = inForce
        inForce = await withApiErrors(this.#records.refresh(served))
        checkEnding(write, inForce)
        if (inForce.stored !== stored) plan = await planOf(write, inForce.stored, signal, plan.claims)
      }
      if (guard !== undefined && now.get(guard.key)?.modRevision !== guard.modRevision)
        guard = await write.guard?.(true)
      const lost = await this.#checkHolders(write, plan.taken, now, staleReservations, options)
      if (lost.size > 0) {
        const claims = filterReservations(
          plan.claims,
          (index, value) => !lost.has(reservationKey(served, index, value, write.key)),
        )
        plan = await planOf(write, inForce?.stored ?? served.hub, signal, claims)
      }
    }
  }

  /**
   * Checks the reservations that made the transaction fail. A reservation that its holder has not recorded is orphaned
   * and may be taken over, at the revision seen.
   * @returns the keys of claimed values that other objects hold
   * @throws ApiError 409 with index, value and holder, if another object holds a required value. The holder is left out
   * if the
   *   caller may not read it
   */
  async #checkHolders(
    write: Write,
    taken: readonly PlannedReservation[],
    now: ReadonlyMap<string, KeyValue>,
    stale: Map<string, Revision>,
    { rights }: WriteOptions,
  ): Promise<ReadonlySet<string>> {
    const { served } = write
    const causes: StatusCause[] = []
    const lost = new Set<string>()
    for (const { index, value, key, claimed } of taken) {
      const pair = now.get(key)
      if (pair === undefined) {
        stale.delete(key)
        continue
      }
      const holder = decodeHolder(pair.value)
      const held =
        holder.uid !== write.uid &&
        (await withApiErrors(holds(this.#storage, served, holder.name, holder.uid, index, value)))
      if (held && claimed) lost.add(key)
      else if (held) {
        const field = uniqueIndexName(index)
        const shown = served.model.sensitive ? '' : ` ${quote(value)}`
        const by = rights?.mayRead(holder.name) === false ? 'another object' : JSON.stringify(holder.name)
        const message = `the value${shown} of the unique index ${field} is held by ${by}`
        causes.push({ reason: 'FieldValueDuplicate', field, message })
      } else stale.set(key, pair.modRevision)
    }
    if (causes.length > 0) throw valuesTaken(served, write.key, causes)
    return lost
  }
}

/** @throws as `planWrite` */
function planOf(
  write: Write,
  stored: ServedVersion,
  signal: AbortSignal | undefined,
  claims?: WritePlan['claims'],
): Promise<WritePlan> {
  return converting(() => planWrite(write, stored, claims), signal)
}

/** @throws ApiError 403 for a new object of a definition that is being deleted */
function checkEnding({ served, key, previous }: Write, inForce: InForce | undefined): void {
  if (previous === undefined && inForce?.isEnding) throw definitionEnding(served, key)
}

/** The operations of a write: the object, then the reservations that it takes, then those that it releases. */
function operationsOf({ served, key: object }: Write, { value, taken, released }: WritePlan): Operation[] {
  const key = served.keyOf(object)
  const operations: Operation[] = [
    value === undefined ? { type: 'delete', key } : { type: 'put', key, value },
  ]
  for (const { key, holder } of taken) operations.push({ type: 'put', key, value: holder })
  for (const { index, value: old } of released)
    operations.push({ type: 'delete', key: reservationKey(served, index, old, object) })
  return operations
}
