import { isRecord, type Revision, zeroRevision } from '@setpoint/controller-runtime/api'
import { unlessAborted } from '@setpoint/controller-runtime/internal'
import {
  type CallOptions,
  type KeyValue,
  type ListOptions,
  type ListPage,
  type Storage,
  type StoreSpace,
  type Transaction,
  type TransactionResult,
  type WatchBatch,
  type WatchOptions,
  WrongStoreError,
} from './contract.ts'

/** The format that this program reads and writes: the keys, and the forms of their values. Without the key it is 1. */
export const storeFormat = 1

/** The key that says which format a store has. */
export const formatKey = 'format'

/** A newer program has changed the format of the store. */
export class StoreFormatError extends WrongStoreError {
  override readonly name: string = 'StoreFormatError'
}

/**
 * Checks that this program can read a store.
 * @param program its version
 * @returns false if the store does not say which format it has
 * @throws StoreFormatError that names the format, the program that wrote it and the remedy; the store's errors
 */
export async function checkFormat(
  storage: Storage,
  program: string,
  options?: CallOptions,
): Promise<boolean> {
  const { pair } = await storage.get(formatKey, options)
  if (pair === undefined) return false
  const { version, by } = formatIn(pair.value)
  if (version !== undefined && version <= storeFormat) return true
  throw new StoreFormatError(
    `the store has format ${version ?? pair.value.toString().slice(0, 80)}, written by Setpoint ${by}. This is Setpoint ${program}, which reads formats up to ${storeFormat}: start Setpoint ${by} or newer, or restore a backup from before that upgrade`,
  )
}

/** Reads the value of the key. The version is undefined if it is in a form that this program does not know. */
export function formatIn(value: Buffer): { readonly version: number | undefined; readonly by: string } {
  let content: unknown
  try {
    content = JSON.parse(value.toString())
  } catch {
    // Formats of the future may be written in another form.
  }
  const { version, by } = isRecord(content) ? content : {}
  return {
    version: typeof version === 'number' ? version : undefined,
    by: typeof by === 'string' ? by : '(unknown version)',
  }
}

/**
 * A store that a server uses: no call reaches it before its format is known to be readable, also if the store is away
 * when the server starts. Writes the format into a store without one.
 */
export class FormatChecked implements Storage {
  readonly #storage: Storage
  readonly #program: string
  #isReadable = false
  #checking: Promise<void> | undefined

  constructor(storage: Storage, program: string) {
    this.#storage = storage
    this.#program = program
  }

  /**
   * Checks the format, unless it is known. @throws StoreFormatError; the store's errors, after which it can be tried
   * again
   */
  check(options?: CallOptions): Promise<void> {
    // One call for all that wait, so it has no signal.
    this.#checking ??= this.#check().finally(() => {
      this.#checking = undefined
    })
    return unlessAborted(this.#checking, options?.signal)
  }

  async #check(): Promise<void> {
    if (this.#isReadable) return
    if (!(await checkFormat(this.#storage, this.#program))) await this.#write()
    this.#isReadable = true
  }

  /** A store that takes no writes now, for example because it is full, gets its format at a later start. */
  async #write(): Promise<void> {
    const value = Buffer.from(JSON.stringify({ version: storeFormat, by: this.#program }))
    const compares = [{ key: formatKey, modRevision: zeroRevision }]
    const onSuccess = [{ type: 'put' as const, key: formatKey, value }]
    const result = await this.#storage.transact({ compares, onSuccess }).catch(() => undefined)
    // Another server, perhaps a newer one, was faster.
    if (result?.succeeded === false) await checkFormat(this.#storage, this.#program)
  }

  async get(key: string, options?: CallOptions): Promise<{ revision: Revision; pair: KeyValue | undefined }> {
    if (!this.#isReadable) await this.check(options)
    return this.#storage.get(key, options)
  }

  async list(prefix: string, options?: ListOptions): Promise<ListPage> {
    if (!this.#isReadable) await this.check(options)
    return this.#storage.list(prefix, options)
  }

  async transact(transaction: Transaction, options?: CallOptions): Promise<TransactionResult> {
    if (!this.#isReadable) await this.check(options)
    return this.#storage.transact(transaction, options)
  }

  watch(prefix: string, options: WatchOptions): AsyncIterable<WatchBatch> {
    // A revision to watch from comes from one of the other calls.
    return this.#storage.watch(prefix, options)
  }

  async head(options?: CallOptions): Promise<{ current: Revision; written: Revision }> {
    if (!this.#isReadable) await this.check(options)
    return this.#storage.head(options)
  }

  async compact(revision: Revision, options?: CallOptions): Promise<void> {
    if (!this.#isReadable) await this.check(options)
    return this.#storage.compact(revision, options)
  }

  space(options?: CallOptions): Promise<StoreSpace> {
    return this.#storage.space(options)
  }

  close(): Promise<void> {
    return this.#storage.close()
  }
}
