import { statSync } from 'node:fs'
import { errorMessage } from '@setpoint/controller-runtime/api'
import {
  type BackupSummary,
  baseAfter,
  type CheckedBackups,
  checkBackups,
  restoreInto,
} from '../operations/index.ts'
import { type Storage, StoreNotEmptyError } from '../storage/index.ts'
import { readBackupFile } from './backup-file.ts'
import type { RestoreCommandOptions, VerifyCommandOptions } from './flags-backup.ts'
import type { StoreOptions } from './flags-store.ts'
import { interruption } from './interruption.ts'
import { describeStore, openStore, replaceStore } from './open-store.ts'
import { megabytes, Progress } from './progress.ts'

/**
 * Replaces the content of a store by that of backups, which are read and checked first.
 * @throws BackupError, StoreNotEmptyError, the errors of the store
 */
export async function restore({ store, files, force, dryRun, key }: RestoreCommandOptions): Promise<void> {
  const checked = await readAll({ files, key })
  // Until now there was nothing to clean up.
  const signal = interruption()
  try {
    if (dryRun) await plan(checked, store, force)
    else await run(checked, store, { force, signal })
  } finally {
    checked.spool.close()
  }
}

/** Reads backups and prints what they have. @throws BackupError */
export async function verify(options: VerifyCommandOptions): Promise<void> {
  const checked = await readAll(options)
  const { files } = options
  checked.spool.close()
  for (const [at, summary] of checked.summaries.entries())
    process.stdout.write(`${files[at]} is whole: ${contentOf(summary)}\n`)
}

async function readAll({ files, key }: VerifyCommandOptions): Promise<CheckedBackups> {
  const total = files.reduce((sum, path) => sum + sizeOf(path), 0)
  const progress = new Progress('checking')
  let bytes = 0
  try {
    return await checkBackups(
      files.map(name => ({ name, open: () => readBackupFile(name, key) })),
      {
        onBytes(more) {
          bytes += more
          progress.show(bytes, total, megabytes(bytes))
        },
      },
    )
  } finally {
    progress.end()
  }
}

async function run(
  checked: CheckedBackups,
  store: StoreOptions,
  { force, signal }: { readonly force: boolean; readonly signal: AbortSignal },
): Promise<void> {
  const progress = new Progress('restoring')
  const replacement = await replaceStore(store, { above: baseAfter(checked), force, signal })
  let version: number
  try {
    version = await restoreInto(replacement, checked, {
      signal,
      onEntry: done => progress.show(done, checked.spool.count, `${done} keys`),
    })
  } catch (error) {
    progress.end()
    await replacement.close()
    const outcome =
      store.kind === 'embedded'
        ? 'the store is as it was before'
        : 'servers refuse the store until the restore has been run again with --force'
    throw new Error(`the restore is not complete, and ${outcome}: ${errorMessage(error)}`, { cause: error })
  }
  await replacement.close()
  const took = progress.end()
  process.stdout.write(
    `restored ${checked.spool.count} keys of the backup at version ${checked.revision} into ${describeStore(store)}, which is at version ${version} now (${took})\n`,
  )
}

/** Prints what a restore would do. @throws StoreNotEmptyError as the restore would */
async function plan(checked: CheckedBackups, store: StoreOptions, force: boolean): Promise<void> {
  const present = await keysOf(store)
  if (present > 0 && !force)
    throw new StoreNotEmptyError(
      `${describeStore(store)} has ${present} keys; give --force to replace all of its content`,
    )
  for (const summary of checked.summaries) process.stdout.write(`would restore ${contentOf(summary)}\n`)
  const replaced = present > 0 ? `, and delete its ${present} keys` : ''
  process.stdout.write(
    `would write ${checked.spool.count} keys into ${describeStore(store)}${replaced}; its versions would begin above ${baseAfter(checked)}\n`,
  )
}

/** Returns how many keys a store has. @throws the errors of the store, StoreNotEmptyError for an incomplete restore */
async function keysOf(store: StoreOptions): Promise<number> {
  if (store.kind === 'embedded') {
    const { checkReplaced, holdsStore } = await import('../storage/embedded/index.ts')
    checkReplaced(store.dataDir)
    if (!holdsStore(store.dataDir)) return 0
  }
  const storage = await openStore(store, { mayBeEmpty: true })
  try {
    return await countKeys(storage)
  } finally {
    await storage.close()
  }
}

async function countKeys(storage: Storage): Promise<number> {
  let keys = 0
  let after: string | undefined
  do {
    const page = await storage.list('', { after, limit: 5_000, keysOnly: true })
    keys += page.pairs.length
    after = page.more ? page.pairs.at(-1)?.key : undefined
  } while (after !== undefined)
  return keys
}

function contentOf({ header, footer, bytes }: BackupSummary): string {
  const { revision, takenAt, program, since } = header
  const { entries, objects, deletions } = footer
  const content =
    since === undefined
      ? `${objects} objects and ${entries - objects} other keys at version ${revision}`
      : `${entries} changes, ${deletions} of them deletions, from version ${since.revision} to ${revision}`
  return `${content}, taken ${takenAt} by setpoint ${program} (${megabytes(bytes)})`
}

function sizeOf(path: string): number {
  return path === '-' ? 0 : statSync(path).size
}
