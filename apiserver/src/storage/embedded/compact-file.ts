import { chmodSync, renameSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Logger } from '@setpoint/controller-runtime'
import { giveToOwnerOf, makePrivateFolder, ownerOnly } from './file-modes.ts'
import type { StoreFile } from './store-file.ts'
import { syncFile, syncFolder } from './sync.ts'

/** Beside the file, because a rename replaces it at once only on the same file system. */
const workFolder = 'compaction'

/**
 * Closes the file of a store, and replaces it by a copy without the space that LMDB has free. If that fails, for
 * example because the disk has no room for the copy, it logs a warning and leaves the file as it was.
 *
 * The copy is durable before it replaces the file, so after a crash the store is one of them.
 */
export async function compactFile(
  file: StoreFile,
  patienceMs: number,
  log: Logger | undefined,
): Promise<void> {
  const { folder, path } = file
  const work = join(folder, workFolder)
  const copy = join(work, 'store.mdb')
  const bytesBefore = statSync(path).size
  try {
    try {
      // A process that was killed may have left one.
      rmSync(work, { recursive: true, force: true })
      makePrivateFolder(work)
      await file.copyCompacted(copy)
    } finally {
      await file.close(patienceMs)
    }
    chmodSync(copy, ownerOnly.file)
    giveToOwnerOf(path, copy)
    syncFile(copy)
    renameSync(copy, path)
    syncFolder(folder)
    log?.info({ path, bytesBefore, bytes: statSync(path).size }, 'compacted the store')
  } catch (error) {
    log?.warn({ err: error, path }, 'failed to compact the store, which stays as it was')
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
}
