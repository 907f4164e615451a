import { renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Logger } from '@setpoint/controller-runtime'
import { laterRevision, type Revision, zeroRevision } from '@setpoint/controller-runtime/api'
import { type Replacement, type ReplacementOptions, StoreNotEmptyError } from '../replacement.ts'
import { embeddedDefaults } from './defaults.ts'
import { lockStore, openEmbeddedStorage } from './embedded-storage.ts'
import { makePrivateFolder } from './file-modes.ts'
import { holdsStore, replacementFolder, unfinishedRestore } from './replacement-folder.ts'
import { StoreFile, storeFileName } from './store-file.ts'
import { syncFile, syncFolder } from './sync.ts'

/**
 * Builds a new store in a folder inside that of the present one, which is locked meanwhile, and moves its file over the
 * present one when it is complete.
 *
 *     locked --> restore/ is being written --complete--> renamed, restore/ removed
 *                     +--close: restore/ removed, the store is as before
 *                     +--killed: restore/ stays, and servers refuse the folder. Without a file in it, the restore had not begun
 *                        to write, or was complete
 *
 * @throws StoreNotEmptyError, StoreLockedError, StoreFolderError
 */
export async function replaceEmbeddedStore(
  { dataDir, log }: { readonly dataDir: string; readonly log?: Logger },
  { above, force }: ReplacementOptions,
): Promise<Replacement> {
  const { folder, lock } = await lockStore(dataDir, { log })
  const work = replacementFolder(folder)
  try {
    const unfinished = unfinishedRestore(folder)
    if (!force && unfinished !== undefined) throw new StoreNotEmptyError(unfinished)
    const present = await revisionOf(folder, force, dataDir)
    rmSync(work, { recursive: true, force: true })
    makePrivateFolder(work)
    const storage = await openEmbeddedStorage({
      dataDir: work,
      startAfter: laterRevision(above, present),
      // Nothing is lost with a store that is not complete: it is synced as a whole.
      durable: false,
      // Nobody follows it.
      historyRevisions: 1,
      tailRevisions: 1,
      tailBytes: 1,
      log,
    })
    let isOver = false
    let closing: Promise<void> | undefined
    const close = async () => {
      await storage.close()
      if (!isOver) rmSync(work, { recursive: true, force: true })
      isOver = true
      await lock.release()
    }
    return {
      storage,
      keepsOrder: true,
      async complete() {
        const { current } = await storage.head()
        await storage.compact(current)
        await storage.close()
        const file = join(work, storeFileName)
        syncFile(file)
        renameSync(file, join(folder, storeFileName))
        syncFolder(folder)
        rmSync(work, { recursive: true })
        isOver = true
      },
      close() {
        closing ??= close()
        return closing
      },
    }
  } catch (error) {
    await lock.release()
    throw error
  }
}

/**
 * Returns the last revision of the store in a folder.
 * @throws StoreNotEmptyError if it has content that must not be replaced
 */
async function revisionOf(folder: string, force: boolean, dataDir: string): Promise<Revision> {
  if (!holdsStore(folder)) return zeroRevision
  const file = await StoreFile.open(folder, embeddedDefaults)
  try {
    if (!force && !file.isEmpty)
      throw new StoreNotEmptyError(
        `the store in ${dataDir} is not empty; give --force to replace all of its content`,
      )
    return file.state.current
  } finally {
    await file.close(embeddedDefaults.commitTimeoutMs)
  }
}
