import { type Revision, toRevision, zeroRevision } from '@setpoint/controller-runtime/api'
import {
  type Change,
  CompactedError,
  FutureRevisionError,
  type KeyValue,
  type ListPage,
  StoreFullError,
  storageLimits,
  type Transaction,
  type TransactionResult,
} from '../../../apiserver/src/storage/index.ts'
import { byBytes, lowerBound, upperBound } from './sorted-keys.ts'
import { type Commit, restorer, type StoreTruth } from './world.ts'

/** A change with what was before it, to undo it. */
export interface RecordedChange extends Omit<Change, 'failure'> {
  readonly previousPair: KeyValue | undefined
}

interface Recorded {
  readonly revision: Revision
  readonly atMs: number
  readonly by: string
  readonly isLate: boolean
  readonly changes: readonly RecordedChange[]
}

type State = ReadonlyMap<string, KeyValue>

interface Backup {
  readonly state: State
  readonly revision: Revision
}

export const coreDefaults = Object.freeze({
  /** Pairs of a page. */
  listPairs: 500,
  listBytes: 1_000_000,
  keyBytes: 1_800,
  /** By how much the revision grows in a restore. */
  restoreBump: 1_000_000,
})

/** The store itself: every call happens at once, in the order of the calls. Links bring calls to it and responses back. */
export class StoreCore implements StoreTruth {
  readonly #now: () => number
  #state = new Map<string, KeyValue>()
  /** In the order of their bytes. */
  #keys: string[] = []
  #log: Recorded[] = []
  #revision: Revision = zeroRevision
  /** The state before the first commit of the log. */
  #base: State = new Map()
  #compacted: Revision = zeroRevision
  readonly #backups: Backup[] = []
  #life = 0
  isFull = false
  /** Called after each commit. */
  onCommit = (_commit: Commit) => {}

  constructor(now: () => number) {
    this.#now = now
  }

  get current(): Revision {
    return this.#revision
  }

  get revision(): number {
    return this.#revision
  }

  get compacted(): Revision {
    return this.#compacted
  }

  get life(): number {
    return this.#life
  }

  get commits(): readonly Commit[] {
    return this.#log
  }

  get keys(): number {
    return this.#keys.length
  }

  /** Bytes of all keys and values. */
  get bytes(): number {
    let bytes = 0
    for (const { key, value } of this.#state.values()) bytes += key.length + value.length
    return bytes
  }

  at(revision: number): ReadonlyMap<string, KeyValue> {
    return this.#stateAt(revision)
  }

  get(key: string): KeyValue | undefined {
    return this.#state.get(key)
  }

  list(
    prefix: string,
    {
      revision,
      after,
      limit = coreDefaults.listPairs,
      keysOnly = false,
    }: {
      readonly revision?: Revision
      readonly after?: string
      readonly limit?: number
      readonly keysOnly?: boolean
    },
  ): ListPage {
    if (!(limit >= 1)) throw new RangeError(`limit must be at least 1, not ${limit}`)
    if (revision !== undefined && revision > this.#revision)
      throw new FutureRevisionError(
        `revision ${revision} is in the future: the store is at ${this.#revision}`,
      )
    if (revision !== undefined && revision < this.#compacted)
      throw new CompactedError(`revision ${revision} has been compacted`)
    const isPast = revision !== undefined && revision < this.#revision
    const state = isPast ? this.#stateAt(revision) : this.#state
    const keys = isPast ? [...state.keys()].sort(byBytes) : this.#keys
    const pairs: KeyValue[] = []
    let bytes = 0
    const from =
      after === undefined || byBytes(after, prefix) < 0 ? lowerBound(keys, prefix) : upperBound(keys, after)
    for (let at = from; at < keys.length; at++) {
      const key = keys[at]
      const pair = key === undefined ? undefined : state.get(key)
      if (pair === undefined || !pair.key.startsWith(prefix)) break
      if (!keysOnly) bytes += pair.value.length
      if (pairs.length >= limit || (bytes > coreDefaults.listBytes && pairs.length > 0))
        return { revision: revision ?? this.#revision, pairs, more: true }
      pairs.push(keysOnly ? { ...pair, value: noBytes } : pair)
    }
    return { revision: revision ?? this.#revision, pairs, more: false }
  }

  /**
   * @param isLate true if nobody waits for the result any more
   * @throws StoreFullError; RangeError if the transaction is not allowed
   */
  transact(transaction: Transaction, by: string, isLate = false): TransactionResult {
    checkTransaction(transaction)
    const { compares, onSuccess, onFailure = [] } = transaction
    const holds = compares.every(
      ({ key, modRevision }) => (this.#state.get(key)?.modRevision ?? zeroRevision) === modRevision,
    )
    if (!holds)
      return { succeeded: false, revision: this.#revision, pairs: onFailure.map(key => this.#state.get(key)) }
    if (this.isFull && onSuccess.some(({ type }) => type === 'put'))
      throw new StoreFullError('the store has no space: its quota is used up')
    const changes: RecordedChange[] = []
    const revision = toRevision(this.#revision + 1)
    for (const operation of onSuccess) {
      const { key } = operation
      const previousPair = this.#state.get(key)
      if (operation.type === 'delete') {
        if (previousPair === undefined) continue
        this.#remove(key)
        const before = { previous: previousPair.value, previousPair }
        changes.push({ key, revision, value: undefined, createRevision: zeroRevision, ...before })
      } else {
        const value = Buffer.from(operation.value)
        const createRevision = previousPair?.createRevision ?? revision
        this.#put({ key, value, modRevision: revision, createRevision })
        changes.push({ key, revision, value, createRevision, previous: previousPair?.value, previousPair })
      }
    }
    if (changes.length === 0) return { succeeded: true, revision: this.#revision }
    this.#revision = revision
    changes.sort((a, b) => byBytes(a.key, b.key))
    const commit = { revision, atMs: this.#now(), by, isLate, changes }
    this.#log.push(commit)
    this.onCommit(commit)
    return { succeeded: true, revision }
  }

  compact(revision: Revision): void {
    if (revision > this.#revision)
      throw new FutureRevisionError(
        `revision ${revision} is in the future: the store is at ${this.#revision}`,
      )
    if (revision > this.#compacted) this.#compacted = revision
  }

  /** Returns commits after a revision. @throws CompactedError */
  commitsAfter(revision: Revision, until: Revision): readonly Recorded[] {
    if (revision < this.#compacted)
      throw new CompactedError(`changes after revision ${revision} have been compacted`)
    let first = this.#log.length
    for (
      let commit = this.#log[first - 1];
      commit !== undefined && commit.revision > revision;
      commit = this.#log[first - 1]
    )
      first--
    let end = first
    for (
      let commit = this.#log[end];
      commit !== undefined && commit.revision <= until;
      commit = this.#log[end]
    )
      end++
    return this.#log.slice(first, end)
  }

  /** Begins with the content of another store, which has no history. */
  begin(content: readonly KeyValue[]): void {
    for (const pair of content) this.#put(pair)
    this.#base = new Map(this.#state)
    this.#revision = toRevision(Math.max(0, ...content.map(({ modRevision }) => modRevision)))
    this.#compacted = this.#revision
  }

  backUp(): number {
    return this.#backups.push({ state: new Map(this.#state), revision: this.#revision }) - 1
  }

  /**
   * Replaces the content, as the product's own restore does it: everything is deleted, and what the backup has is put with
   * new revisions, in the order of the old ones. They are above all earlier ones, which count as compacted. Returns false
   * without a backup.
   */
  restore(backup = this.#backups.length - 1): boolean {
    const found = this.#backups[backup]
    if (found === undefined) return false
    this.#life++
    const deletion = toRevision(this.#revision + coreDefaults.restoreBump)
    this.#record(
      deletion,
      [...this.#keys].map(key => ({ key, value: undefined, createRevision: zeroRevision })),
    )
    // What one transaction has put keeps one revision.
    const groups = new Map<Revision, KeyValue[]>()
    for (const pair of [...found.state.values()].sort((a, b) => a.modRevision - b.modRevision)) {
      const group = groups.get(pair.modRevision)
      if (group === undefined) groups.set(pair.modRevision, [pair])
      else group.push(pair)
    }
    this.#revision = deletion
    for (const pairs of groups.values()) {
      this.#revision = toRevision(this.#revision + 1)
      const createRevision = this.#revision
      this.#record(
        this.#revision,
        pairs.map(({ key, value }) => ({ key, value, createRevision })),
      )
    }
    this.#compacted = this.#revision
    return true
  }

  /**
   * Replaces the files by those of the last backup. Revisions after it are given out a second time, with other content.
   * Returns false without a backup.
   */
  putBack(): boolean {
    const found = this.#backups.at(-1)
    if (found === undefined) return false
    this.#life++
    this.#base = found.state
    this.#state = new Map(found.state)
    this.#keys = [...this.#state.keys()].sort(byBytes)
    this.#log = []
    this.#revision = found.revision
    this.#compacted = found.revision
    return true
  }

  /** Makes changes of a restore, which belong to the history that judges see. */
  #record(revision: Revision, changes: readonly Pick<Change, 'key' | 'value' | 'createRevision'>[]): void {
    if (changes.length === 0) return
    const recorded = changes.map(({ key, value, createRevision }) => {
      const previousPair = this.#state.get(key)
      if (value === undefined) this.#remove(key)
      else this.#put({ key, value, modRevision: revision, createRevision })
      return { key, revision, value, createRevision, previous: previousPair?.value, previousPair }
    })
    this.#log.push({ revision, atMs: this.#now(), by: restorer, isLate: false, changes: recorded })
  }

  #stateAt(revision: number): State {
    if (revision >= this.#revision) return this.#state
    const behind = this.#revision - revision
    // From the nearer end of the log.
    if (behind > this.#log.length / 2) {
      const state = new Map(this.#base)
      for (const commit of this.#log) {
        if (commit.revision > revision) break
        for (const { key, value, createRevision } of commit.changes)
          if (value === undefined) state.delete(key)
          else state.set(key, { key, value, modRevision: commit.revision, createRevision })
      }
      return state
    }
    const state = new Map(this.#state)
    for (let at = this.#log.length - 1; at >= 0; at--) {
      const commit = this.#log[at]
      if (commit === undefined || commit.revision <= revision) break
      for (const { key, previousPair } of commit.changes)
        if (previousPair === undefined) state.delete(key)
        else state.set(key, previousPair)
    }
    return state
  }

  #put(pair: KeyValue): void {
    if (!this.#state.has(pair.key)) this.#keys.splice(lowerBound(this.#keys, pair.key), 0, pair.key)
    this.#state.set(pair.key, pair)
  }

  #remove(key: string): void {
    this.#state.delete(key)
    this.#keys.splice(lowerBound(this.#keys, key), 1)
  }
}

const noBytes = Buffer.alloc(0)

function checkTransaction({ compares, onSuccess }: Transaction): void {
  if (Math.max(compares.length, onSuccess.length) > storageLimits.transactionItems)
    throw new RangeError(
      `a transaction may have at most ${storageLimits.transactionItems} compares and operations`,
    )
  const keys = new Set<string>()
  for (const { key } of [...compares, ...onSuccess])
    if (key === '' || Buffer.byteLength(key) > coreDefaults.keyBytes)
      throw new RangeError(`invalid key ${JSON.stringify(key.slice(0, 80))}`)
  for (const operation of onSuccess) {
    if (keys.has(operation.key))
      throw new RangeError(`the transaction has two operations on ${operation.key}`)
    keys.add(operation.key)
    if (operation.type === 'put' && operation.value.length > storageLimits.storedBytes)
      throw new RangeError(`the value of ${operation.key} exceeds ${storageLimits.storedBytes} bytes`)
  }
}
