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
import { errorMessage } from '@setpoint/controller-runtime/api'
import { StoreFolderError } from './folder-error.ts'

/** The start of a meta page (mdb.c, MDB_page_header and MDB_meta). There are two; LMDB uses the newer. */
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

/** Free disk space required to create a database, in bytes: many times LMDB's first pages. */
const roomBytes = 1024 * 1024

/**
 * Checks that LMDB can open a file. If it cannot, lmdb 3.5.6 does not throw but crashes the process, because it frees
 * its environment twice. The file may be missing or empty.
 *
 * LMDB has no checksums. The check finds only damage that shows in the meta pages: another format, or a file truncated
 * before the roots of its trees.
 * @throws StoreFolderError
 */
export function checkDatabaseFile(path: string): void {
  try {
    for (const file of [path, `${path}-lock`])
      if (existsSync(file)) accessSync(file, constants.R_OK | constants.W_OK)
  } catch (error) {
    throw new StoreFolderError(`cannot write ${path}: ${errorMessage(error)}`, { cause: error })
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
  if (bavail * bsize < roomBytes) throw new StoreFolderError(`cannot create ${path}: the disk is full`)
}

function checkMeta(path: string, file: number, size: number): void {
  const first = readMeta(file, 0)
  if (first === undefined)
    throw new StoreFolderError(
      `${path} is not a store of Setpoint; choose another folder or, if it was one, restore a backup`,
    )
  if (first.version !== layout.version)
    throw new StoreFolderError(`${path} has LMDB data format ${first.version} instead of ${layout.version}`)
  const second = readMeta(file, first.pageSize)
  if (second === undefined) throw new StoreFolderError(`${path} is damaged: its second meta page is missing`)
  const { lastRoot, pageSize } = second.transaction > first.transaction ? second : first
  if (size < (lastRoot + 1) * pageSize)
    throw new StoreFolderError(
      `${path} is damaged: it has ${size} bytes and ends before its root page ${lastRoot}`,
    )
}

interface Meta {
  readonly version: number
  readonly pageSize: number
  readonly transaction: bigint
  /** The highest root page of the trees. */
  readonly lastRoot: number
}

function readMeta(file: number, at: number): Meta | undefined {
  const bytes = Buffer.alloc(layout.bytes)
  if (readSync(file, bytes, 0, layout.bytes, at) < layout.bytes) return undefined
  // LMDB uses the byte order of the machine; lmdb is built for little-endian machines only.
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
