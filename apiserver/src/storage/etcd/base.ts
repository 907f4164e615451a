import {
  isRecord,
  parseRevision,
  type Revision,
  toRevision,
  zeroRevision,
} from '@setpoint/controller-runtime/api'
import type { IKeyValue, IRangeRequest, IRangeResponse } from 'etcd3'
import { CompactedError, IncompleteRestoreError, WrongStoreError } from '../contract.ts'
import type { Keyspace } from './keyspace.ts'
import type { Lineage } from './lineage.ts'

/** A restore that has begun and has not been completed. */
export interface RestoreMark {
  /** Identifies the restore. */
  readonly id: string
  /** The machine that it runs on. */
  readonly host: string
  /** RFC 3339. */
  readonly since: string
}

/** The value of the key `base`. */
export interface BaseRecord {
  /** What is added to every revision of etcd. */
  readonly offset: number
  /** Present while the store is being restored. */
  readonly restore?: RestoreMark
}

/**
 * The difference between etcd's revisions and those of the store.
 *
 * Revisions belong to etcd's cluster and cannot be raised. A restore needs revisions above all that were ever given
 * out, so it puts an offset into the key `base` of the prefix. This class is the one place that adds and subtracts it:
 * every revision in a response passes `revision`, and every one in a request `raw` or `rawInHistory`.
 *
 *     unknown --the key is read, before the first call--> known
 *        +--the key says that a restore is not complete: refused, read again
 *     known --the key has changed, in a watch or a refused transaction--> the store was replaced, see `Lineage`
 *
 * The history before the key was put last belongs to another state of the store, so it counts as compacted.
 */
export class Base {
  readonly #key: Buffer
  readonly #lineage: Lineage
  readonly #restoreId: string | undefined
  #offset = 0
  /** etcd's revision of the key, 0 without the key; undefined until it is read. */
  #at: number | undefined

  /** @param restoreId the restore that may use the store before it is complete */
  constructor(keyspace: Keyspace, lineage: Lineage, restoreId?: string) {
    this.#key = keyspace.base
    this.#lineage = lineage
    this.#restoreId = restoreId
  }

  get isKnown(): boolean {
    return this.#at !== undefined
  }

  /** Returns the revision of the store for one of etcd, in decimal. */
  revision(text: string): Revision {
    const raw = parseRevision(text)
    return raw === zeroRevision ? raw : toRevision(raw + this.#offset)
  }

  /**
   * Returns etcd's revision for a comparison. It is negative, and so that of no key, for a revision from before the
   * restore that is older than etcd itself.
   */
  raw(revision: Revision): number {
    return revision === zeroRevision ? zeroRevision : revision - this.#offset
  }

  /**
   * Returns etcd's revision for a read or watch of the history. @throws CompactedError if it is from before the restore
   */
  rawInHistory(revision: Revision): number {
    const raw = this.raw(revision)
    if (raw >= (this.#at ?? 0)) return raw
    throw new CompactedError(
      `revision ${revision} is older than the restore of the store, whose history begins at ${this.#offset + (this.#at ?? 0)}`,
    )
  }

  /** Reads the key. @throws WrongStoreError as `see` */
  async read(range: (request: IRangeRequest) => Promise<IRangeResponse>): Promise<void> {
    const { kvs } = await range({ key: this.#key })
    this.see(kvs[0])
  }

  /** Returns true if a pair as etcd sends it is that of the base. */
  owns(key: Buffer): boolean {
    return key.equals(this.#key)
  }

  /**
   * Takes the present pair of the key, as etcd sends it.
   * @throws WrongStoreError if a restore is not complete, or has replaced the store since the key was read first
   */
  see(pair: Pick<IKeyValue, 'mod_revision' | 'value'> | undefined): void {
    const at = pair === undefined ? 0 : parseRevision(pair.mod_revision)
    if (this.#at === at) return
    if (this.#at !== undefined) throw this.#lineage.isReplaced('a backup was restored')
    const { offset, restore } = pair === undefined ? noBase : decodeBase(pair.value)
    if (restore !== undefined && restore.id !== this.#restoreId) throw incompleteRestore(restore)
    this.#offset = offset
    this.#at = at
  }
}

const noBase: BaseRecord = Object.freeze({ offset: 0 })

export function incompleteRestore({ host, since }: RestoreMark): IncompleteRestoreError {
  return new IncompleteRestoreError(
    `the restore that began on ${host} at ${since} is not complete; if it has ended, run it again with --force`,
  )
}

export function encodeBase(record: BaseRecord): Buffer {
  return Buffer.from(JSON.stringify(record))
}

/** @throws WrongStoreError if it is malformed: without the offset every version would be wrong */
export function decodeBase(value: Buffer): BaseRecord {
  let record: unknown
  try {
    record = JSON.parse(value.toString())
  } catch {
    record = undefined
  }
  const offset = isRecord(record) ? record.offset : undefined
  if (!isRecord(record) || typeof offset !== 'number' || !Number.isSafeInteger(offset))
    throw new WrongStoreError('the key `base` of the store is damaged: restore a backup')
  const { restore } = record
  if (!isRecord(restore)) return { offset }
  return {
    offset,
    restore: { id: String(restore.id), host: String(restore.host), since: String(restore.since) },
  }
}
