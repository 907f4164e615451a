import { errorMessage } from '@setpoint/controller-runtime/api'
import { type Encryption, type RewriteProgress, rewriteStored } from '../encryption/index.ts'
import { withoutUniqueValue } from '../registry/index.ts'
import type { Storage } from '../storage/index.ts'
import { openEncryption } from './encryption.ts'
import { interruption } from './interruption.ts'
import { openStore, withStore } from './open-store.ts'
import type { ReencryptOptions } from './options.ts'
import { ProgressLine } from './progress-line.ts'

export const reencryptDefaults = Object.freeze({
  /** Calls that drop the history of the embedded store. Each removes about 32 MB, and it has at most 512 MB. */
  compactions: 32,
})

/**
 * Rewrites what is stored otherwise than the configuration says. Progress goes to standard error, and the result to
 * standard output.
 * @throws Error if values could not be rewritten, or the walk was stopped; StoreLockedError, StoreFolderError and other
 * errors
 *   of the store
 */
export async function reencrypt({ store, encryption: file }: ReencryptOptions): Promise<void> {
  const signal = interruption()
  const encryption = await openEncryption(file)
  try {
    const dropsOldValues = store.kind === 'embedded' && store.compact
    const present = store.kind === 'embedded' ? { ...store, compact: false } : store
    const result = await withStore(present, async storage => {
      const rewritten = await rewriteUntilStopped(storage, encryption, signal)
      if (dropsOldValues) await dropHistory(storage)
      return rewritten
    })
    if (dropsOldValues) await (await openStore(store)).close()
    report(result)
  } finally {
    encryption.close()
  }
}

/** A signal ends the walk between two values. */
async function rewriteUntilStopped(
  storage: Storage,
  encryption: Encryption,
  signal: AbortSignal,
): Promise<RewriteProgress> {
  const line = new ProgressLine()
  let latest: Readonly<RewriteProgress> | undefined
  try {
    return await rewriteStored({
      storage,
      encryption,
      withoutValue: withoutUniqueValue,
      signal,
      onProgress: progress => {
        latest = progress
        line.show(() => `looked at ${progress.seen} values, rewritten ${progress.rewritten}`)
      },
    })
  } catch (error) {
    line.clear()
    const done = `${latest?.rewritten ?? 0} values were rewritten; run the command again to go on`
    if (signal.aborted) throw new Error(`stopped: ${done}`, { cause: error })
    throw new Error(`${errorMessage(error)}; ${done}`, { cause: error })
  } finally {
    line.clear()
  }
}

/** Drops the earlier values, and with them what was stored in the clear. */
async function dropHistory(storage: Storage): Promise<void> {
  const { current } = await storage.head()
  for (let calls = 0; calls < reencryptDefaults.compactions; calls++) await storage.compact(current)
}

/** @throws Error if values could not be rewritten */
function report({ seen, rewritten, failed, failures }: RewriteProgress): void {
  process.stdout.write(`rewritten ${rewritten} of ${seen} values\n`)
  if (failed === 0) return
  for (const { key, message } of failures) process.stderr.write(`${key} ${message}\n`)
  throw new Error(`${failed} values cannot be decrypted and stay as they are`)
}
