import { type Revision, toRevision } from '@setpoint/controller-runtime/api'
import type { KeyValue } from '../storage/index.ts'
import { Alongside, type StoredRevision } from './stored-revisions.ts'

/** One model as its cache has it. */
export interface KnownState {
  /** `<group>/<plural>` */
  readonly resource: string
  /** Everything of the model up to here is in: the follower's position, or above it where the cache was built later. */
  readonly revision: Revision
  /** All that there was, by name. */
  readonly objects: Iterator<StoredRevision>
}

/** What has become of one object. */
export interface ObjectChange {
  readonly name: string
  readonly revision: Revision
  readonly deleted: boolean
}

export type Verdict =
  /** These are all changes of the model, ascending by revision. */
  | { readonly kind: 'exact'; readonly changes: readonly ObjectChange[] }
  /** They cannot be told for certain. */
  | { readonly kind: 'reset'; readonly why: string }

/**
 * Finds out what happened between two revisions of which only the states are known, because the store has compacted
 * the log between them: P, up to which the caches have followed, and C.
 *
 * It rests on what every transaction of ours keeps to:
 *
 * 1. It has a revision of its own, and the store's revision moves on with transactions only.
 * 2. It puts or deletes at most one object. What it does besides concerns that object's unique values.
 * 3. Transactions on the bookkeeping keys (`compaction`, `models/...`) touch no object.
 *
 * So every revision in (P, C] is one event, and most events leave a trace in the state at C:
 *
 * - An object's `modRevision` is the put of that object, and nothing else happened then.
 * - A bookkeeping key's is no event of an object. (The record of compaction tells its earlier ones itself: there is a
 *   round every few minutes, and by the time that the log is lost there have been some.)
 * - An object's `createRevision` below its `modRevision`, and that of a reservation (`unique/<resource>/...`) whose
 *   object has been put again since, are puts whose contents are lost: of that model, and of no other.
 * - Where the store counts the puts of a key, it is known how many more were lost, though not at which revisions.
 * - A deletion leaves no trace. It did happen to each object that was there at P and is not at C, or was created anew
 *   since, at one revision in (P, C], before the new creation.
 *
 * Let U be the revisions in (P, C] without a trace, D the deletions that did happen, and L the puts that are known to be
 * lost, less those of them that reservations may stand for. Each of D and L has a revision of its own in U, so
 * |U| >= |D| + |L|. If they are equal, nothing else has happened: every change is known but those of the models of L,
 * which are reset, and which deletion has which revision, which is known where only one can be (see
 * `#assignDeletions`). If |U| is larger, something has come and gone, and nobody can say in which model; a transaction
 * of others in the same etcd looks the same. Then every model is reset, also when the states contradict the rules above.
 *
 * The test that would notice is the property in `state-difference.test.ts`.
 */
export class StateDifference {
  readonly #from: Revision
  readonly #models = new Map<string, ModelDifference>()
  /** By revision, the resource whose event left a trace; '' for bookkeeping. */
  readonly #traces = new Map<Revision, string>()
  /** Revisions of the traces at which an object was put that is still there. */
  readonly #puts = new Set<Revision>()
  readonly #reservations: Trace[] = []
  readonly #deletions: Deletion[] = []
  /** Puts by resource that are known to have happened and to have left no trace. */
  readonly #lost = new Map<string, number>()
  #contradiction: string | undefined

  /** @param from everything up to here is in the caches. */
  constructor(from: Revision, models: Iterable<KnownState>) {
    this.#from = from
    for (const model of models) this.#models.set(model.resource, new ModelDifference(model))
  }

  /** Takes in the next key of the present state; they come ascending, all that the store has. */
  see(pair: Omit<KeyValue, 'value'>): void {
    const { key } = pair
    const parts = key.split('/')
    const resource = `${parts[1]}/${parts[2]}`
    if (parts[0] === 'objects' && parts.length === 4) this.#seeObject(resource, parts[3] ?? '', pair)
    else if (parts[0] === 'unique') this.#seeReservation(resource, pair)
    else if (parts[0] === 'models' || key === 'compaction') this.#seeBookkeeping(pair)
    // Keys that nobody here knows leave no trace: whoever puts them may do anything else in the same transaction.
  }

  /** Takes in the revisions of earlier rounds of compaction, which have overwritten each other's record. */
  seeRounds(rounds: readonly Revision[]): void {
    for (const round of rounds) this.#trace(round, '')
  }

  /** Call once all keys have been seen. @param to their revision. */
  conclude(to: Revision): Map<string, Verdict> {
    for (const model of this.#models.values()) {
      for (const { name } of model.alongside.rest())
        this.#deletions.push({ model, name, before: Number.POSITIVE_INFINITY })
    }
    for (const { revision, resource } of this.#reservations) {
      if (!this.#traces.has(revision)) {
        this.#lose(resource, writtenTwice)
        this.#count(resource, -1)
      }
      this.#trace(revision, resource)
    }
    let explained = this.#deletions.length
    for (const lost of this.#lost.values()) explained += Math.max(0, lost)
    const missing = to - this.#from - this.#traces.size
    if (missing > explained) this.#contradict('what happened cannot be told from what there is')
    else if (missing < explained) this.#contradict('more has happened than there was time for')
    else if (this.#deletions.length > 0) this.#assignDeletions(to)
    return this.#verdicts()
  }

  #seeObject(
    resource: string,
    name: string,
    { modRevision, createRevision, puts }: Omit<KeyValue, 'key' | 'value'>,
  ): void {
    this.#tracePut(modRevision, resource)
    const putAgain = createRevision < modRevision
    if (putAgain) this.#trace(createRevision, resource)
    // Both its creation and its last put leave a trace, the others none.
    if (createRevision > this.#from && puts !== undefined) this.#count(resource, puts - (putAgain ? 2 : 1))
    const model = this.#models.get(resource)
    if (model === undefined) return
    for (const gone of model.alongside.before(name))
      this.#deletions.push({ model, name: gone.name, before: Number.POSITIVE_INFINITY })
    const known = model.alongside.take(name)
    const since = Math.max(this.#from, model.revision)
    if (modRevision <= since) {
      if (known?.revision !== modRevision) this.#contradict(`${resource}/${name} was not what the store had`)
      return
    }
    if (createRevision <= since) {
      if (known === undefined) this.#contradict(`${resource}/${name} was not there, but in the store`)
      // The last put leaves a trace, those between what is known and it none.
      const lost = puts === undefined || known?.puts === undefined ? 0 : puts - known.puts - 1
      if (lost > 0) model.lose(writtenTwice)
      this.#count(resource, lost)
    } else {
      if (known !== undefined) this.#deletions.push({ model, name, before: createRevision })
      if (putAgain) model.lose(writtenTwice)
    }
    model.changes.push({ name, revision: modRevision, deleted: false })
  }

  #seeReservation(resource: string, { modRevision, createRevision }: Omit<KeyValue, 'key' | 'value'>): void {
    for (const revision of new Set([createRevision, modRevision])) {
      if (revision > this.#from) this.#reservations.push({ revision, resource })
    }
  }

  #seeBookkeeping({ modRevision, createRevision }: Omit<KeyValue, 'key' | 'value'>): void {
    this.#trace(createRevision, '')
    this.#trace(modRevision, '')
  }

  #tracePut(revision: Revision, resource: string): void {
    if (revision <= this.#from) return
    if (this.#puts.has(revision)) this.#contradict(`two objects were written at revision ${revision}`)
    this.#puts.add(revision)
    this.#trace(revision, resource)
  }

  #trace(revision: Revision, resource: string): void {
    if (revision <= this.#from) return
    const known = this.#traces.get(revision)
    if (known !== undefined && known !== resource)
      this.#contradict(`two kinds were written at revision ${revision}`)
    this.#traces.set(revision, resource)
  }

  #count(resource: string, lost: number): void {
    this.#lost.set(resource, (this.#lost.get(resource) ?? 0) + lost)
  }

  /**
   * Gives each deletion its revision, where there is only one way to do so. In the order of their latest possible
   * revisions: as soon as n deletions have n revisions between them, they have exactly those, and nobody else has one
   * of them. One deletion with one revision is certain; among several, any could have any.
   */
  #assignDeletions(to: Revision): void {
    const deletions = this.#deletions.sort((a, b) => a.before - b.before)
    const free = this.#revisionsWithoutTrace(to)
    let group: Deletion[] = []
    let below = 0
    for (const [at, deletion] of deletions.entries()) {
      group.push(deletion)
      while ((free[below] ?? Number.POSITIVE_INFINITY) < deletion.before) below++
      if (below < at + 1) {
        this.#contradict('an object was created before it can have been deleted')
        return
      }
      if (below > at + 1) continue
      const revision = free[at]
      if (group.length > 1 || revision === undefined) {
        for (const { model } of group) model.lose('several objects were deleted, in an unknown order')
      } else if (revision <= deletion.model.revision) {
        this.#contradict('an object was deleted before it was read')
      } else {
        deletion.model.changes.push({ name: deletion.name, revision, deleted: true })
      }
      group = []
    }
    // Among more revisions than there are deletions, as puts have been lost too.
    for (const { model } of group) model.lose('it is not known when an object was deleted')
  }

  /** Not more than are explained. */
  #revisionsWithoutTrace(to: Revision): Revision[] {
    const found: Revision[] = []
    const traces = [...this.#traces.keys(), to + 1].sort((a, b) => a - b)
    let next = this.#from + 1
    for (const trace of traces) {
      for (; next < trace; next++) found.push(toRevision(next))
      next = trace + 1
    }
    return found
  }

  #verdicts(): Map<string, Verdict> {
    const verdicts = new Map<string, Verdict>()
    for (const [resource, { changes, lost }] of this.#models) {
      const why = this.#contradiction ?? lost
      verdicts.set(
        resource,
        why === undefined
          ? { kind: 'exact', changes: changes.sort((a, b) => a.revision - b.revision) }
          : { kind: 'reset', why },
      )
    }
    return verdicts
  }

  #lose(resource: string, why: string): void {
    this.#models.get(resource)?.lose(why)
  }

  #contradict(why: string): void {
    this.#contradiction ??= why
  }
}

const writtenTwice = 'an object was written more than once'

interface Trace {
  readonly revision: Revision
  readonly resource: string
}

/** That an object was deleted is certain, when is not. */
interface Deletion {
  readonly model: ModelDifference
  readonly name: string
  /** At a revision below this one. */
  readonly before: number
}

class ModelDifference {
  readonly revision: Revision
  readonly alongside: Alongside
  readonly changes: ObjectChange[] = []
  /** Why its changes are not all known. */
  lost: string | undefined

  constructor({ revision, objects }: KnownState) {
    this.revision = revision
    this.alongside = new Alongside(objects)
  }

  lose(why: string): void {
    this.lost ??= why
  }
}
