import { closeSync, fstatSync, openSync, writeSync } from 'node:fs'
import { hostname } from 'node:os'
import { errorMessage } from '@setpoint/controller-runtime/api'
import { checkDatabaseFile } from './database-file.ts'
import { open } from './lmdb.ts'

/**
 * A lock that one process at a time can hold: a file. The lock ends with the process, even after a crash.
 *
 * Node has no file locks, and a pid file may be stale. LMDB detects dead processes: each reader has a slot in the
 * reader table and a POSIX record lock (on Windows: its process handle). The system releases that lock when the process
 * ends, and `readerCheck` clears slots without a lock. So a small LMDB database serves as the lock:
 *
 * 1. Take a reader slot and keep it while the lock is held.
 * 2. In a write transaction, which excludes other processes: fail if the process in the `holder` row has a slot, else
 *    write this process to the row.
 *
 * A reused pid is safe, because only processes that use this database have slots. Containers that share a volume may
 * have equal pids. Then the record lock of the pid is already taken, and LMDB refuses the slot.
 */
export interface ProcessLock {
  /** True if a holder has marked the lock, now or before. */
  readonly isMarked: boolean
  /** Marks the lock for all later holders. @throws the error of LMDB, for example on a full disk */
  mark(): void
  release(): Promise<void>
}

/** This process or another one holds the lock. */
export class LockHeldError extends Error {
  override readonly name = 'LockHeldError'
}

interface Holder {
  readonly pid: number
  readonly host: string
  readonly since: string
}

/**
 * @param path of a new or existing lock file on a local disk: LMDB's locks do not work on network file systems. LMDB
 * keeps a second file beside it.
 * @param durable false if the file need not survive a crash of the system
 * @throws LockHeldError that names the holder, or the error of LMDB or the file system
 */
export async function lockFile(path: string, durable = true): Promise<ProcessLock> {
  const lock = openLock(path, durable)
  try {
    // A database that is opened twice in a process shares its slots, so this process is checked first.
    if (readers(lock.readerList()).has(process.pid)) throw heldBy(holderOf(lock.get(holderKey)))
    const slot = takeSlot(lock)
    const taken = lock.transactionSync(() => {
      lock.readerCheck()
      allocate(path)
      const holder = holderOf(lock.get(holderKey))
      if (holder && holder.pid !== process.pid && readers(lock.readerList()).has(holder.pid)) return holder
      const self: Holder = { pid: process.pid, host: hostname(), since: new Date().toISOString() }
      lock.put(holderKey, Buffer.from(JSON.stringify(self)))
      return undefined
    })
    if (taken !== undefined) {
      slot.done()
      throw heldBy(taken)
    }
    return {
      get isMarked() {
        return lock.get(markKey) !== undefined
      },
      mark() {
        lock.putSync(markKey, Buffer.from('1'))
      },
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
const markKey = Buffer.from('mark')

/** Bytes of the database file: room for the row, the pages that a change adds, and those that the next ones reuse. */
const allocatedBytes = 64 * 1024

/**
 * Allocates the database file in full, once, so that a server can start again on a full disk. Must be called in a write
 * transaction, because it overwrites everything after the end of the file.
 */
function allocate(path: string): void {
  const file = openSync(path, 'r+')
  try {
    const { size } = fstatSync(file)
    if (size < allocatedBytes) writeSync(file, Buffer.alloc(allocatedBytes - size), 0, undefined, size)
  } catch {
    // The row may fit into the present file.
  } finally {
    closeSync(file)
  }
}

function openLock(path: string, durable: boolean) {
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
}

function takeSlot(lock: LockDatabase) {
  try {
    return lock.useReadTransaction()
  } catch (error) {
    throw new LockHeldError(`probably another container: ${errorMessage(error)}`, { cause: error })
  }
}

/** Returns the pids of LMDB's reader list, which has a line for each reader that starts with the pid. */
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

function heldBy(holder: Holder | undefined): LockHeldError {
  return new LockHeldError(
    holder ? `process ${holder.pid} on ${holder.host}, since ${holder.since}` : 'another process',
  )
}
