import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import { type Logger, linkedSignal } from '@setpoint/controller-runtime'
import { parseRevision } from '@setpoint/controller-runtime/api'
import type { IKeyValue, ITxnRequest } from 'etcd3'
import type { Storage } from '../contract.ts'
import { type Replacement, type ReplacementOptions, StoreNotEmptyError } from '../replacement.ts'
import { type BaseRecord, decodeBase, encodeBase, incompleteRestore } from './base.ts'
import { CallError, toStorageError } from './call-error.ts'
import { methods } from './client.ts'
import { etcdDefaults } from './defaults.ts'
import { Endpoints } from './endpoints.ts'
import { type EtcdStorageOptions, openEtcdStorage } from './etcd-storage.ts'
import { Keyspace } from './keyspace.ts'
import { checkedHeader } from './messages.ts'
import { TransactionIds } from './transaction.ts'

/** Keys that one transaction deletes. */
const deletedAtOnce = 100

/**
 * Marks the store as being restored, with a base that lifts its revisions above all that were given out, and deletes
 * its content. From the mark on, servers that use the store refuse everything until they are restarted, and others
 * until the restore is complete.
 *
 * A second restore with `force` takes over: the first one is refused like a server.
 * @throws StoreNotEmptyError, StoreUnavailableError, StoreFullError, WrongStoreError
 */
export async function replaceEtcdStore(
  options: EtcdStorageOptions & { readonly prefix: string; readonly log?: Logger },
  { above, force, signal }: ReplacementOptions,
): Promise<Replacement> {
  const key = new BaseKey(options, signal)
  let storage: Storage | undefined
  try {
    const { pair, current, hasContent } = await key.read()
    const before: BaseRecord = pair === undefined ? { offset: 0 } : decodeBase(pair.value)
    if (before.restore !== undefined && !force)
      throw new StoreNotEmptyError(incompleteRestore(before.restore).message)
    if (hasContent && !force)
      throw new StoreNotEmptyError(
        `the store below ${options.prefix} in etcd is not empty; give --force to replace all of its content`,
      )
    const id = randomUUID()
    const offset = Math.max(before.offset, above - current)
    const mark = { id, host: hostname(), since: new Date().toISOString() }
    const marked = await key.put({ offset, restore: mark }, Number(pair?.mod_revision ?? 0))
    storage = await openEtcdStorage({ ...options, restoreId: id })
    await deleteAll(storage, signal)
    const opened = storage
    return {
      storage: opened,
      keepsOrder: false,
      complete: async () => void (await key.put({ offset }, marked)),
      async close() {
        await opened.close()
        key.close()
      },
    }
  } catch (error) {
    await storage?.close()
    key.close()
    throw error instanceof CallError ? toStorageError(error) : error
  }
}

/** Deletes everything, and its history, which would take space beside the new content. */
async function deleteAll(storage: Storage, signal: AbortSignal): Promise<void> {
  let hasDeleted = false
  for (;;) {
    const { pairs } = await storage.list('', { limit: deletedAtOnce, keysOnly: true, signal })
    if (pairs.length === 0) break
    const onSuccess = pairs.map(({ key }) => ({ type: 'delete', key }) as const)
    await storage.transact({ compares: [], onSuccess }, { signal })
    hasDeleted = true
  }
  if (hasDeleted) await storage.compact((await storage.head({ signal })).current, { signal })
}

/** The key `base` of a prefix, below the storage that it is for. */
class BaseKey {
  readonly #keyspace: Keyspace
  readonly #endpoints: Endpoints
  readonly #ids = new TransactionIds()
  readonly #signal: AbortSignal

  constructor(
    { endpoints, prefix, tls, auth, log }: Parameters<typeof replaceEtcdStore>[0],
    signal: AbortSignal,
  ) {
    this.#keyspace = new Keyspace(prefix)
    this.#endpoints = new Endpoints(endpoints, { tls, auth, probe: this.#keyspace.base }, log)
    this.#signal = signal
  }

  /** Returns the pair as etcd sends it, etcd's revision, and whether there are other keys than those of the storage. */
  async read(): Promise<{ pair: IKeyValue | undefined; current: number; hasContent: boolean }> {
    const { key, rangeEnd } = this.#keyspace.range('')
    // More than the keys of the storage itself.
    const first = { key, range_end: rangeEnd, keys_only: true, limit: 8 }
    const { kvs: keys } = await this.#ask(limits => this.#endpoints.ask(methods.range, first, limits))
    const base = { key: this.#keyspace.base }
    const { kvs, header } = await this.#ask(limits => this.#endpoints.ask(methods.range, base, limits))
    return {
      pair: kvs[0],
      current: parseRevision(checkedHeader(header).revision),
      hasContent: keys.some(pair => !Keyspace.isOwn(this.#keyspace.decode(pair.key))),
    }
  }

  /**
   * Puts the key, with the fence, so that every server notices, and with the tip. Returns etcd's revision of it.
   * @param before etcd's revision of the present one, 0 without one
   * @throws StoreNotEmptyError if another restore has put it since
   */
  async put(record: BaseRecord, before: number): Promise<number> {
    const { base, fence, tip } = this.#keyspace
    const value = encodeBase(record)
    const id = this.#ids.next()
    const request: ITxnRequest = {
      compare: [{ key: base, target: 'Mod', result: 'Equal', mod_revision: before }],
      success: [
        { request_put: { key: base, value } },
        { request_put: { key: fence, value: id } },
        { request_put: { key: tip, value: id } },
      ],
      failure: [{ request_range: { key: base } }],
    }
    const sent = await this.#ask(limits => this.#endpoints.ask(methods.txn, request, limits))
    if (sent.succeeded) return parseRevision(checkedHeader(sent.header).revision)
    // The call may have been sent twice, because its first response was late.
    const present: IKeyValue | undefined = sent.responses[0]?.response_range.kvs[0]
    if (present?.value.equals(value)) return parseRevision(present.mod_revision)
    throw new StoreNotEmptyError('another restore has taken over this store')
  }

  close(): void {
    this.#endpoints.close()
  }

  async #ask<T>(call: (limits: { until: number; signal: AbortSignal }) => Promise<T>): Promise<T> {
    const timeout = AbortSignal.timeout(etcdDefaults.deadlineMs)
    const { signal, dispose } = linkedSignal(this.#signal, timeout)
    try {
      return await call({ until: performance.now() + etcdDefaults.deadlineMs, signal })
    } finally {
      dispose()
    }
  }
}
