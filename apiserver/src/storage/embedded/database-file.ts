import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  fstatSync,
  openSync,
  readSync,
  statfsSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { errorMessage, StoreFolderError } from './folder-error.ts'

/** The first bytes of each of the two meta pages, of which LMDB takes the newer: mdb.c, MDB_page_header, MDB_meta. */
const layout = Object.freeze({
  magicAt: 24,
  magic: 0xbeefc0de,
  versionAt: 28,
  version: 2,
  pageSizeAt: 48,
  freeRootAt: 88,
  mainRootAt: 136,
  transactionAt: 152,
  bytes: 160,
})

/** Disk space without which a new database is not begun: LMDB's first pages, many times over. */
const roomBytes = 1024 * 1024

/**
 * Makes sure that LMDB can open a file before it is told to: lmdb 3.5.6 does not throw when it cannot, it ends the
 * process (it frees its environment twice). A file that does not exist or is empty is fine, LMDB begins it.
 *
 * LMDB keeps no checksums, so of damage only what the meta pages show is found: another format, or a file that was cut
 * off before the roots of its trees.
 * @throws StoreFolderError
 */
export function checkDatabaseFile(path: string): void {
  try {
    for (const file of [path, `${path}-lock`])
      if (existsSync(file)) accessSync(file, constants.R_OK | constants.W_OK)
  } catch (error) {
    throw new StoreFolderError(`${path} cannot be written: ${errorMessage(error)}`, { cause: error })
  }
  const file = openSync(path, 'a+')
  try {
    const { size } = fstatSync(file)
    if (size === 0) checkRoom(path)
    else checkMeta(path, file, size)
  } finally {
    closeSync(file)
  }
}

function checkRoom(path: string): void {
  const { bavail, bsize } = statfsSync(dirname(path))
  if (bavail * bsize < roomBytes) throw new StoreFolderError(`no room for ${path}: its disk is full`)
}

function checkMeta(path: string, file: number, size: number): void {
  const first = readMeta(file, 0)
  if (first === undefined) throw new StoreFolderError(`${path} is not a store; choose another folder`)
  if (first.version !== layout.version)
    throw new StoreFolderError(`${path} has LMDB's data format ${first.version} instead of ${layout.version}`)
  const second = readMeta(file, first.pageSize)
  if (second === undefined) throw new StoreFolderError(`${path} is damaged: its second page is not there`)
  const { lastRoot, pageSize } = second.transaction > first.transaction ? second : first
  if (size < (lastRoot + 1) * pageSize)
    throw new StoreFolderError(
      `${path} is damaged: it ends at ${size} bytes, before its root page ${lastRoot}`,
    )
}

interface Meta {
  readonly version: number
  readonly pageSize: number
  readonly transaction: bigint
  /** The higher page of those that the trees begin at. */
  readonly lastRoot: number
}

function readMeta(file: number, at: number): Meta | undefined {
  const bytes = Buffer.alloc(layout.bytes)
  if (readSync(file, bytes, 0, layout.bytes, at) < layout.bytes) return undefined
  // Numbers are in the machine's order, which is little-endian wherever lmdb has been built.
  if (bytes.readUInt32LE(layout.magicAt) !== layout.magic) return undefined
  const roots = [layout.freeRootAt, layout.mainRootAt].map(root => bytes.readBigUInt64LE(root))
  return {
    version: bytes.readUInt32LE(layout.versionAt),
    pageSize: bytes.readUInt32LE(layout.pageSizeAt),
    transaction: bytes.readBigUInt64LE(layout.transactionAt),
    lastRoot: Math.max(0, ...roots.filter(root => root !== emptyTree).map(Number)),
  }
}

const emptyTree = 0xffff_ffff_ffff_ffffn
