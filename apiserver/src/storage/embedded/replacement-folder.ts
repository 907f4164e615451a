import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { StoreFolderError } from './folder-error.ts'
import { storeFileName } from './store-file.ts'

/** The folder of a new store, in that of the store that it will replace: a rename is atomic only on one file system. */
export function replacementFolder(folder: string): string {
  return join(folder, 'restore')
}

/**
 * Refuses the folder of a store in which a restore was killed. The store is the old one, or an empty one where there
 * was none; which of them is wanted is for a person to say.
 * @throws StoreFolderError
 */
export function checkReplaced(folder: string): void {
  const unfinished = unfinishedRestore(folder)
  if (unfinished !== undefined) throw new StoreFolderError(unfinished)
}

/** Returns what to do about a restore that was killed, or undefined if there was none. */
export function unfinishedRestore(folder: string): string | undefined {
  const work = replacementFolder(folder)
  if (!existsSync(work)) return undefined
  // Either it had not made its file yet, or it had moved it over that of the store already.
  if (!existsSync(join(work, storeFileName)))
    return `a restore into ${folder} was cut off before it wrote anything, or when it was complete; run it again with --force, or remove ${work} to go on with the store as it is`
  return `a restore into ${folder} is not complete; run it again with --force, or remove ${work} to go on with the store as it was before`
}

/** Returns true if a folder has the file of a store. */
export function holdsStore(folder: string): boolean {
  const found = statSync(join(folder, storeFileName), { throwIfNoEntry: false })
  return found !== undefined && found.size > 0
}
