import {
  type Change,
  KeyUnavailableError,
  type KeyValue,
  type ListOptions,
  type Operation,
  type Storage,
  storageLimits,
  type Transaction,
  type TransactionResult,
  UndecryptableError,
  type WatchBatch,
  type WatchOptions,
} from '../storage/index.ts'
import type { Encryption } from './encryption.ts'

type Ciphers = Pick<Encryption, 'encrypt' | 'decrypt' | 'close'>

/**
 * A store whose values are encrypted in the store below it.
 *
 * A value that cannot be decrypted is delivered empty, with its `failure`, so that the other values of a page or of the
 * log are delivered as well. If only the key service does not respond, a call fails with KeyUnavailableError. A watch
 * goes on, because it also delivers changes of other kinds, and says so with the change.
 */
export class EncryptedStorage implements Storage {
  readonly #below: Storage
  readonly #ciphers: Ciphers

  constructor(below: Storage, ciphers: Ciphers) {
    this.#below = below
    this.#ciphers = ciphers
  }

  async get(...args: Parameters<Storage['get']>): ReturnType<Storage['get']> {
    const { revision, pair } = await this.#below.get(...args)
    return { revision, pair: pair && (await this.#open(pair)) }
  }

  async list(prefix: string, options: ListOptions = {}): ReturnType<Storage['list']> {
    const page = await this.#below.list(prefix, options)
    if (options.keysOnly) return page
    const pairs: KeyValue[] = []
    for (const pair of page.pairs) {
      const opened = this.#open(pair)
      pairs.push(opened instanceof Promise ? await opened : opened)
    }
    return { ...page, pairs }
  }

  async transact(
    transaction: Transaction,
    options?: Parameters<Storage['transact']>[1],
  ): Promise<TransactionResult> {
    const onSuccess: Operation[] = []
    for (const operation of transaction.onSuccess) {
      if (operation.type === 'delete') onSuccess.push(operation)
      else {
        const { key } = operation
        if (operation.value.length > storageLimits.valueBytes)
          throw new RangeError(`the value of ${key} exceeds ${storageLimits.valueBytes} bytes`)
        const value = this.#ciphers.encrypt(key, operation.value)
        onSuccess.push({ type: 'put', key, value: value instanceof Promise ? await value : value })
      }
    }
    const result = await this.#below.transact({ ...transaction, onSuccess }, options)
    if (result.succeeded) return result
    return { ...result, pairs: await Promise.all(result.pairs.map(pair => pair && this.#open(pair))) }
  }

  async *watch(prefix: string, options: WatchOptions): AsyncGenerator<WatchBatch, void, undefined> {
    for await (const batch of this.#below.watch(prefix, options)) {
      const changes: Change[] = []
      for (const change of batch.changes) {
        const opened = this.#openChange(change)
        changes.push(opened instanceof Promise ? await opened : opened)
      }
      yield { ...batch, changes }
    }
  }

  head(...args: Parameters<Storage['head']>): ReturnType<Storage['head']> {
    return this.#below.head(...args)
  }

  compact(...args: Parameters<Storage['compact']>): ReturnType<Storage['compact']> {
    return this.#below.compact(...args)
  }

  space(...args: Parameters<Storage['space']>): ReturnType<Storage['space']> {
    return this.#below.space(...args)
  }

  async close(): Promise<void> {
    await this.#below.close()
    this.#ciphers.close()
  }

  /** @throws KeyUnavailableError */
  #open(pair: KeyValue): KeyValue | Promise<KeyValue> {
    const closed = (error: unknown): KeyValue => {
      if (!(error instanceof UndecryptableError)) throw error
      return { ...pair, value: empty, failure: error }
    }
    try {
      const value = this.#ciphers.decrypt(pair.key, pair.value)
      if (!(value instanceof Promise)) return value === pair.value ? pair : { ...pair, value }
      return value.then(opened => ({ ...pair, value: opened }), closed)
    } catch (error) {
      return closed(error)
    }
  }

  #openChange(change: Change): Change | Promise<Change> {
    const value = this.#openValue(change.key, change.value)
    const previous = this.#openValue(change.key, change.previous)
    if (!(value instanceof Promise) && !(previous instanceof Promise)) return joined(change, value, previous)
    return Promise.all([value, previous]).then(opened => joined(change, ...opened))
  }

  #openValue(key: string, value: Buffer | undefined): Opened | Promise<Opened> {
    if (value === undefined) return {}
    try {
      const opened = this.#ciphers.decrypt(key, value)
      return opened instanceof Promise ? opened.then(value => ({ value }), unopened) : { value: opened }
    } catch (error) {
      return unopened(error)
    }
  }
}

interface Opened {
  readonly value?: Buffer
  readonly failure?: UndecryptableError | KeyUnavailableError
}

function unopened(error: unknown): Opened {
  if (!(error instanceof UndecryptableError || error instanceof KeyUnavailableError)) throw error
  return { value: empty, failure: error }
}

/** A previous value that is lost does no harm, while one that is to be had later makes the change wait for it. */
function joined(change: Change, { value, failure }: Opened, previous: Opened): Change {
  const delayed = previous.failure instanceof KeyUnavailableError ? previous.failure : undefined
  const reason = failure ?? delayed
  return { ...change, value, previous: previous.value, ...(reason && { failure: reason }) }
}

/** No object, so that whoever does not look at the failure fails too. */
const empty = Buffer.alloc(0)
