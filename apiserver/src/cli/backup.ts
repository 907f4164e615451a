import { once } from 'node:events'
import { PassThrough, type Readable } from 'node:stream'
import { errorMessage } from '@setpoint/controller-runtime/api'
import {
  BackupError,
  BackupSeal,
  type BackupSummary,
  backupStream,
  type PrecedingBackup,
  readBackup,
} from '../operations/index.ts'
import { programVersion } from '../program-version.ts'
import { StoreLockedError } from '../storage/index.ts'
import { CompleteFile, readBackupFile } from './backup-file.ts'
import type { BackupCommandOptions, BackupOrigin } from './flags-backup.ts'
import { UsageError } from './flags-values.ts'
import { interruption } from './interruption.ts'
import { describeStore, openStore } from './open-store.ts'
import { megabytes, Progress } from './progress.ts'
import { serverBackup } from './server-backup.ts'

/**
 * Takes a backup, checks it while it is written, and prints what it has. Nothing stays of one that is not complete.
 * @throws UsageError, BackupError, the errors of the store, the server and the file
 */
export async function backup({ origin, file, since, force, key }: BackupCommandOptions): Promise<void> {
  if (file === '-' && process.stdout.isTTY)
    throw new UsageError('a backup is not text: give a FILE, or redirect standard output')
  const signal = interruption()
  const preceding = since === undefined ? undefined : await precedingBackup(since, key)
  const output = file === '-' ? undefined : await CompleteFile.create(file, force)
  const write = (bytes: Buffer) => (output ? output.write(bytes) : writeOut(bytes))
  const seal = key && new BackupSeal(key)
  const progress = new Progress('backing up')
  try {
    const { stream, close } = await openOrigin(origin, preceding, signal)
    let summary: BackupSummary
    try {
      summary = await copyChecked(stream, bytes => write(seal?.add(bytes) ?? bytes), progress)
    } catch (error) {
      throw signal.aborted ? signal.reason : describe(error, origin)
    } finally {
      stream.destroy()
      await close()
    }
    if (seal !== undefined) await write(seal.end())
    await output?.complete()
    const line = `${said(summary)} ${file === '-' ? 'to standard output' : `to ${file}`} (${megabytes(summary.bytes)}, ${progress.end()})\n`
    if (output === undefined) process.stderr.write(line)
    else process.stdout.write(line)
  } catch (error) {
    progress.end()
    await output?.discard()
    throw error
  }
}

/** Returns what a backup has, for people. */
function said({
  header: { revision, since },
  footer: { entries, objects, deletions },
}: BackupSummary): string {
  if (since === undefined)
    return `backed up ${objects} objects and ${entries - objects} other keys at version ${revision}`
  return `backed up ${entries} changes, ${deletions} of them deletions, from version ${since.revision} to ${revision}`
}

async function precedingBackup(path: string, key: Buffer | undefined): Promise<PrecedingBackup> {
  try {
    const { header, footer } = await readBackup(readBackupFile(path, key))
    return { revision: header.revision, sha256: footer.sha256 }
  } catch (error) {
    throw error instanceof BackupError
      ? new BackupError(`cannot use ${path}: ${error.message}`, { cause: error })
      : error
  }
}

interface OpenedOrigin {
  readonly stream: Readable
  close(): Promise<void>
}

async function openOrigin(
  origin: BackupOrigin,
  since: PrecedingBackup | undefined,
  signal: AbortSignal,
): Promise<OpenedOrigin> {
  if (origin.kind === 'server')
    return { stream: await serverBackup(origin.connection, since, signal), close: async () => {} }
  const storage = await openStore(origin.store).catch(error => {
    if (!(error instanceof StoreLockedError)) throw error
    throw new StoreLockedError(`${error.message}, or back up through its server with --server URL`, {
      cause: error,
    })
  })
  try {
    const stream = await backupStream(storage, { program: programVersion(), now: Date.now(), since, signal })
    return { stream, close: () => storage.close() }
  } catch (error) {
    await storage.close()
    throw signal.aborted ? signal.reason : describe(error, origin)
  }
}

/** Passes a backup on as it is read and checked, at the pace of the slower of both. */
async function copyChecked(
  stream: Readable,
  write: (bytes: Buffer) => Promise<void>,
  progress: Progress,
): Promise<BackupSummary> {
  const checked = new PassThrough()
  let keys = 0
  let lineBytes = 0
  let bytes = 0
  const reading = readBackup(checked, ({ value }, { storeBytes }) => {
    keys += 1
    lineBytes += value?.length ?? 0
    progress.show(lineBytes, storeBytes, `${keys} keys, ${megabytes(bytes)}`)
  })
  // Its failure is that of the copy, or ends it.
  const failed = reading.then(
    () => false,
    () => true,
  )
  try {
    for await (const chunk of stream) {
      bytes += chunk.length
      await write(chunk)
      if (!checked.write(chunk) && (await Promise.race([once(checked, 'drain'), failed])) === true) break
    }
  } catch (error) {
    checked.destroy(error instanceof Error ? error : undefined)
    await failed
    throw error
  }
  checked.end()
  return reading
}

async function writeOut(bytes: Buffer): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    process.stdout.write(bytes, error => (error ? reject(error) : resolve()))
  })
}

/** Says where a backup failed. */
function describe(error: unknown, origin: BackupOrigin): unknown {
  const isReset = error instanceof Error && 'code' in error && error.code === 'ECONNRESET'
  if (origin.kind === 'server' && (isReset || error instanceof BackupError))
    return new Error(
      `the server ended the backup before it was complete, see its log: ${errorMessage(error)}`,
      { cause: error },
    )
  if (error instanceof BackupError && origin.kind === 'store')
    return new BackupError(`cannot back up ${describeStore(origin.store)}: ${error.message}`, {
      cause: error,
    })
  return error
}
