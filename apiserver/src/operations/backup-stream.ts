import { createHash } from 'node:crypto'
import { pipeline, Readable } from 'node:stream'
import { createGzip } from 'node:zlib'
import type { Revision } from '@setpoint/controller-runtime/api'
import { CompactedError, type Storage } from '../storage/index.ts'
import {
  BackupError,
  encodeDeletion,
  encodeEntry,
  encodeFooter,
  encodeHeader,
  isLeftOut,
  isObject,
  type PrecedingBackup,
} from './backup-format.ts'

export const backupDefaults = Object.freeze({
  /** Keys of a page. The store bounds its bytes. */
  pageKeys: 500,
  /** Bytes of lines that are made in one turn of the event loop. */
  blockBytes: 256 * 1024,
  /** zlib's fastest: a server compresses while it serves. It shrinks objects to a fifth. */
  gzipLevel: 1,
})

export interface BackupOptions {
  /** The version of this program, for the header. */
  readonly program: string
  /** Time of the header, milliseconds since the epoch. */
  readonly now: number
  /** Takes only the changes since this backup. Default: everything. */
  readonly since?: PrecedingBackup
  readonly signal: AbortSignal
}

/**
 * Returns a backup of the store at one revision, compressed. It is read at the pace of its consumer, a page at a time.
 * The first page has been read when it resolves, so that what is wrong from the start is an error of the call.
 *
 * The stream fails with BackupError if the store compacts the history that it needs, and with the errors of the store.
 * A consumer that gets no footer has no backup.
 * @throws BackupError, the errors of the store
 */
export async function backupStream(storage: Storage, options: BackupOptions): Promise<Readable> {
  const blocks = blocksOf(storage, options)
  const first = await blocks.next()
  const all = async function* () {
    if (first.done !== true) yield first.value
    yield* blocks
  }
  const lines = Readable.from(all(), { objectMode: true, highWaterMark: 1 })
  const zip = createGzip({ level: backupDefaults.gzipLevel })
  // The error of the first stream destroys the other one with the same error.
  return pipeline(lines, zip, () => {})
}

async function* blocksOf(storage: Storage, options: BackupOptions): AsyncGenerator<Buffer> {
  const block = new Block()
  try {
    yield* options.since === undefined
      ? stateBlocks(storage, block, options)
      : changeBlocks(storage, block, options.since, options)
    const { entries, objects, deletions } = block
    yield encodeFooter({ entries, objects, deletions, sha256: block.digest() })
  } catch (error) {
    throw error instanceof CompactedError ? compacted(options.since) : error
  }
}

async function* stateBlocks(
  storage: Storage,
  block: Block,
  { program, now, signal }: BackupOptions,
): AsyncGenerator<Buffer> {
  let revision: Revision | undefined
  let after: string | undefined
  const { usedBytes } = await storage.space({ signal }).catch(() => ({ usedBytes: 0 }))
  for (let more = true; more; ) {
    const page = await storage.list('', { revision, after, limit: backupDefaults.pageKeys, signal })
    if (revision === undefined) {
      revision = page.revision
      const takenAt = new Date(now).toISOString()
      block.add(encodeHeader({ revision, takenAt, program, storeBytes: usedBytes, since: undefined }))
    }
    for (const pair of page.pairs) {
      if (isLeftOut(pair.key)) continue
      block.count(pair.key)
      block.add(encodeEntry(pair))
      if (block.isFull) yield block.take()
    }
    after = page.pairs.at(-1)?.key
    more = page.more && after !== undefined
  }
  yield block.take()
}

async function* changeBlocks(
  storage: Storage,
  block: Block,
  since: PrecedingBackup,
  { program, now, signal }: BackupOptions,
): AsyncGenerator<Buffer> {
  const { current, written } = await storage.head({ signal })
  if (current < since.revision)
    throw new BackupError(
      `the store is at version ${current}, before that of the given backup, ${since.revision}: it is another store, or an older state`,
    )
  const takenAt = new Date(now).toISOString()
  block.add(encodeHeader({ revision: current, takenAt, program, storeBytes: 0, since }))
  if (written > since.revision)
    for await (const { changes } of storage.watch('', { after: since.revision, until: written, signal }))
      for (const { key, revision, value } of changes) {
        if (isLeftOut(key)) continue
        block.count(key, value === undefined)
        block.add(
          value === undefined
            ? encodeDeletion(key, revision)
            : encodeEntry({ key, modRevision: revision, value }),
        )
        if (block.isFull) yield block.take()
      }
  signal.throwIfAborted()
  yield block.take()
}

function compacted(since: PrecedingBackup | undefined): BackupError {
  return new BackupError(
    since === undefined
      ? 'the store compacted its history before the backup was complete: take it again, when there are fewer writes or over a faster connection'
      : `the history of the store no longer reaches back to version ${since.revision} of the given backup: take a full backup, and increments of it more often`,
  )
}

/** Lines that are not yet passed on, and the counts and checksum of all lines. */
class Block {
  entries = 0
  objects = 0
  deletions = 0
  readonly #hash = createHash('sha256')
  #lines: Buffer[] = []
  #bytes = 0

  get isFull(): boolean {
    return this.#bytes >= backupDefaults.blockBytes
  }

  count(key: string, isDeletion = false): void {
    this.entries += 1
    if (isDeletion) this.deletions += 1
    else if (isObject(key)) this.objects += 1
  }

  add(line: Buffer): void {
    this.#lines.push(line)
    this.#bytes += line.length
  }

  take(): Buffer {
    const bytes = Buffer.concat(this.#lines, this.#bytes)
    this.#hash.update(bytes)
    this.#lines = []
    this.#bytes = 0
    return bytes
  }

  digest(): string {
    return this.#hash.digest('hex')
  }
}
