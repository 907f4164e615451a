import { chmodSync, closeSync, lchownSync, mkdirSync, openSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Logger } from '@setpoint/controller-runtime'

export const ownerOnly = Object.freeze({ folder: 0o700, file: 0o600 })
const othersMask = 0o077

/** The files of a data folder. */
const names = ['holder.mdb', 'holder.mdb-lock', 'store.mdb', 'store.mdb-lock'] as const

/**
 * Creates a folder that only its owner can enter, whatever the umask. Made by root, it belongs to the owner of its
 * parent.
 */
export function makePrivateFolder(path: string): void {
  mkdirSync(path, ownerOnly.folder)
  giveToOwnerOf(dirname(path), path)
  if (process.platform !== 'win32') chmodSync(path, ownerOnly.folder)
}

/**
 * As root, gives a file that this process has made to the owner of another one, such as its folder. The server runs as
 * another user, and could not open a store that a command of root has rewritten or restored.
 */
export function giveToOwnerOf(like: string, path: string): void {
  if (process.getuid?.() !== 0) return
  try {
    const { uid, gid } = statSync(like)
    lchownSync(path, uid, gid)
  } catch {
    // In a container root may not change owners. The file then belongs to root, as any other that it makes.
  }
}

/**
 * Restricts the files of a data folder to their owner, whatever the umask. Earlier versions of Setpoint left them
 * readable. The mode of an existing folder does not change, because it may have other files. Logs a warning for each
 * file that other users can still read.
 */
export function restrictFiles(folder: string, log: Logger | undefined, chmod = chmodSync): void {
  // On Windows files inherit the access list of their folder.
  if (process.platform === 'win32') return
  for (const path of names.map(name => join(folder, name))) {
    try {
      const isNew = create(path)
      if (isNew) giveToOwnerOf(folder, path)
      if (!isNew && !isOpenToOthers(path)) continue
      chmod(path, ownerOnly.file)
      if (isOpenToOthers(path)) throw new Error('the file system ignored the new mode')
    } catch (error) {
      if (isOpenToOthers(path))
        log?.warn(
          { path, err: error },
          'other users can read this file of the store; change its mode to 0600',
        )
    }
  }
}

/** Returns false if the file exists. Does not open it then: closing it would release the locks of this process. */
function create(path: string): boolean {
  try {
    closeSync(openSync(path, 'wx', ownerOnly.file))
    return true
  } catch {
    return false
  }
}

function isOpenToOthers(path: string): boolean {
  const found = statSync(path, { throwIfNoEntry: false })
  return found?.isFile() === true && (found.mode & othersMask) !== 0
}
