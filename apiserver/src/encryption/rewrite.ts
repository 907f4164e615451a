import { currentPages, type KeyValue, type Storage, UndecryptableError } from '../storage/index.ts'
import type { Encryption } from './encryption.ts'

export const rewriteDefaults = Object.freeze({
  /** Values rewritten at once. Keeps a store busy that takes milliseconds for each transaction. */
  concurrency: 8,
  /** Values in one page, held in memory together. */
  pageSize: 200,
  /** Keys of undecryptable values that are reported. */
  shown: 20,
})

/** The keys that may hold content of objects. An earlier version wrote unique values into their reservations. */
const prefixes = ['objects/', 'authentication/', 'unique/'] as const

export interface RewriteProgress {
  /** Values looked at so far. */
  seen: number
  rewritten: number
  /** Values that cannot be decrypted. They stay as they are. */
  failed: number
  /** The first few of them. */
  readonly failures: { readonly key: string; readonly message: string }[]
}

interface RewriteOptions {
  /** The store with the ciphertext. */
  readonly storage: Storage
  readonly encryption: Pick<Encryption, 'encrypt' | 'decrypt' | 'isCurrent'>
  /** Returns a reservation without the unique value that it reserves; the same buffer if it has none. */
  readonly withoutValue: (reservation: Buffer) => Buffer
  readonly signal: AbortSignal
  /** Called after each page. */
  readonly onProgress?: (progress: Readonly<RewriteProgress>) => void
}

/**
 * Rewrites every value that is stored otherwise than the configuration says: in the clear, or with a key that is not
 * the first one. Its content stays the same, and it gets a new revision.
 *
 * Guarantees: each value is rewritten by one transaction that compares its revision, so a write of a server is never
 * lost. A value that is current is left alone, so a walk that was cut off is simply run again, also by several
 * processes.
 *
 * @throws KeyUnavailableError and the other errors of the store, and the signal's reason
 */
export async function rewriteStored(options: RewriteOptions): Promise<RewriteProgress> {
  const { storage, signal, onProgress } = options
  const { concurrency, pageSize } = rewriteDefaults
  const progress: RewriteProgress = { seen: 0, rewritten: 0, failed: 0, failures: [] }
  for (const prefix of prefixes) {
    for await (const pairs of currentPages(storage, prefix, { limit: pageSize, signal })) {
      for (let at = 0; at < pairs.length; at += concurrency)
        await Promise.all(pairs.slice(at, at + concurrency).map(pair => rewrite(options, pair, progress)))
      progress.seen += pairs.length
      onProgress?.(progress)
    }
  }
  return progress
}

/** Rewrites one value, also if it changes meanwhile. */
async function rewrite(options: RewriteOptions, seen: KeyValue, progress: RewriteProgress): Promise<void> {
  const { storage, signal } = options
  const { key } = seen
  let pair: KeyValue | undefined = seen
  try {
    for (;;) {
      signal.throwIfAborted()
      if (pair === undefined) return
      const { modRevision, value: stored }: KeyValue = pair
      const value = await renewed(options, key, stored)
      if (value === stored) return
      const result = await storage.transact({
        compares: [{ key, modRevision }],
        onSuccess: [{ type: 'put', key, value }],
        onFailure: [key],
      })
      if (result.succeeded) {
        progress.rewritten++
        return
      }
      pair = result.pairs[0]
    }
  } catch (error) {
    if (!(error instanceof UndecryptableError)) throw error
    progress.failed++
    if (progress.failures.length < rewriteDefaults.shown)
      progress.failures.push({ key, message: error.message })
  }
}

/**
 * Returns a value as it is to be stored: the same buffer if it is so already. @throws UndecryptableError,
 * KeyUnavailableError
 */
async function renewed(
  { encryption, withoutValue }: RewriteOptions,
  key: string,
  stored: Buffer,
): Promise<Uint8Array> {
  if (key.startsWith('unique/')) return withoutValue(stored)
  if (await encryption.isCurrent(key, stored)) return stored
  return encryption.encrypt(key, await encryption.decrypt(key, stored))
}
