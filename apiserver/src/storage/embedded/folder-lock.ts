import { hostname } from 'node:os'
import { join } from 'node:path'
import { open } from 'lmdb'
import { StoreLockedError } from '../contract.ts'
import { checkDatabaseFile } from './database-file.ts'
import { errorMessage, StoreFolderError } from './folder-error.ts'

/**
 * One process at a time holds a data folder.
 *
 * Node offers no file lock, and a pid file cannot be told from a stale one with certainty. LMDB has what is needed: a
 * process that reads has a slot in the reader table of the lock file, and a POSIX record lock (Windows: its process
 * handle) that says that the slot's owner is alive. The system drops that lock with the process, however it ends, and
 * `readerCheck` clears slots without one. So a small database of its own serves as the lock:
 *
 * 1. take a reader slot, and keep it for as long as the folder is held;
 * 2. in a write transaction, which is exclusive between processes too: refuse if the process in the `holder` row still
 *    has a slot, else become the holder.
 *
 * Of two that come at once the first to get the transaction wins. A pid that is used again is no danger: the slot
 * shows a process that uses this very database. Processes that share a volume but not a pid namespace may have equal
 * pids; then the record lock, which is per pid, is taken, and the slot is refused.
 */
export interface FolderLock {
  release(): Promise<void>
}

interface Holder {
  readonly pid: number
  readonly host: string
  readonly since: string
}

/**
 * @param dataDir an existing folder, which should be on a local disk: LMDB's locks do not work over a network.
 * @param durable whether the lock's own file must survive the system; see `EmbeddedOptions`.
 * @throws StoreLockedError when another holder, also one in this process, is alive.
 * @throws StoreFolderError when the lock cannot be made in this folder.
 */
export async function lockFolder(dataDir: string, durable = true): Promise<FolderLock> {
  const lock = openLock(dataDir, durable)
  try {
    // Whoever opens a database again in the same process shares its slots, so they must be looked at first.
    if (readers(lock.readerList()).has(process.pid)) throw lockedBy(dataDir, holderOf(lock.get(holderKey)))
    const slot = takeSlot(lock, dataDir)
    const taken = lock.transactionSync(() => {
      lock.readerCheck()
      const holder = holderOf(lock.get(holderKey))
      if (holder && holder.pid !== process.pid && readers(lock.readerList()).has(holder.pid)) return holder
      const self: Holder = { pid: process.pid, host: hostname(), since: new Date().toISOString() }
      lock.put(holderKey, Buffer.from(JSON.stringify(self)))
      return undefined
    })
    if (taken !== undefined) {
      slot.done()
      throw lockedBy(dataDir, taken)
    }
    return {
      async release() {
        slot.done()
        await lock.close()
      },
    }
  } catch (error) {
    await lock.close()
    throw error
  }
}

type LockDatabase = ReturnType<typeof openLock>

const holderKey = Buffer.from('holder')

function openLock(dataDir: string, durable: boolean) {
  try {
    const path = join(dataDir, 'holder.mdb')
    checkDatabaseFile(path)
    return open<Buffer, Buffer>({
      path,
      noSubdir: true,
      encoding: 'binary',
      keyEncoding: 'binary',
      mapSize: 1024 * 1024,
      overlappingSync: false,
      noSync: !durable,
    })
  } catch (error) {
    throw new StoreFolderError(`the data folder ${dataDir} cannot be locked: ${errorMessage(error)}`, {
      cause: error,
    })
  }
}

function takeSlot(lock: LockDatabase, dataDir: string) {
  try {
    return lock.useReadTransaction()
  } catch (error) {
    throw new StoreLockedError(
      `the data folder ${dataDir} is in use, probably by a process of another container: ${errorMessage(error)}`,
      { cause: error },
    )
  }
}

/** The pids of the reader table, from LMDB's listing of it: a line each that begins with the pid. */
function readers(listing: string): Set<number> {
  return new Set(Array.from(listing.matchAll(/^\s*(\d+)\s/gm), match => Number(match[1])))
}

function holderOf(row: Buffer | undefined): Holder | undefined {
  if (row === undefined) return undefined
  const value: unknown = JSON.parse(row.toString())
  if (typeof value !== 'object' || value === null) return undefined
  if (!('pid' in value && 'host' in value && 'since' in value)) return undefined
  const { pid, host, since } = value
  if (typeof pid !== 'number' || typeof host !== 'string' || typeof since !== 'string') return undefined
  return { pid, host, since }
}

function lockedBy(dataDir: string, holder: Holder | undefined): StoreLockedError {
  const who = holder ? `process ${holder.pid} on ${holder.host}, since ${holder.since}` : 'another process'
  return new StoreLockedError(
    `the data folder ${dataDir} is in use by ${who}; stop it, or choose another folder`,
  )
}
