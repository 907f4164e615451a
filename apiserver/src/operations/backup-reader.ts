import { createHash } from 'node:crypto'
import { pipeline, type Readable } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { errorMessage } from '@setpoint/controller-runtime/api'
import {
  type BackupEntry,
  BackupError,
  type BackupFooter,
  type BackupHeader,
  decodeEntry,
  decodeFooter,
  decodeHeader,
} from './backup-format.ts'

export const readerDefaults = Object.freeze({
  /** Bytes of a line: the largest value in base64, its key, and room. A longer one is not from a backup. */
  lineBytes: 8 * 1024 * 1024,
})

/** A backup that was read to its end. */
export interface BackupSummary {
  readonly header: BackupHeader
  readonly footer: BackupFooter
  /** Compressed. */
  readonly bytes: number
}

/**
 * Reads a backup, as compressed bytes, to its end and checks it. `take` gets each entry before it is known whether the
 * file is whole, so it must not act on them.
 * @throws BackupError if it is cut, damaged or not a backup; the error of the source
 */
export async function readBackup(
  source: Readable,
  take: (entry: BackupEntry, header: BackupHeader) => void = () => {},
): Promise<BackupSummary> {
  const hash = createHash('sha256')
  let header: BackupHeader | undefined
  let footer: BackupFooter | undefined
  let entries = 0
  let objects = 0
  let deletions = 0
  const zip = createGunzip()
  let bytes = 0
  source.on('data', (chunk: Buffer) => {
    bytes += chunk.length
  })
  try {
    for await (const line of linesOf(pipeline(source, zip, () => {}))) {
      if (footer !== undefined) throw new BackupError('it is damaged: lines follow its last one')
      if (header === undefined) {
        header = decodeHeader(line)
      } else {
        footer = decodeFooter(line)
        if (footer === undefined) {
          const entry = decodeEntry(line)
          entries += 1
          if (entry.value === undefined) deletions += 1
          else if (entry.key.startsWith('objects/')) objects += 1
          take(entry, header)
        }
      }
      if (footer === undefined) hash.update(line).update('\n')
    }
  } catch (error) {
    throw readable(error, header !== undefined)
  } finally {
    source.destroy()
    zip.destroy()
  }
  if (header === undefined) throw new BackupError('it is not a backup of Setpoint: it is empty')
  if (footer === undefined) throw cut()
  const isWhole = footer.entries === entries && footer.objects === objects && footer.deletions === deletions
  if (!isWhole || footer.sha256 !== hash.digest('hex'))
    throw new BackupError('it is damaged: its content does not have the checksum of its last line')
  if (zip.bytesWritten !== bytes) throw new BackupError('it is damaged: bytes follow its end')
  return { header, footer, bytes }
}

function cut(): BackupError {
  return new BackupError('it is cut: its last line, with the counts and the checksum, is missing')
}

/** Says what an error of zlib means for the file. */
function readable(error: unknown, hasBegun: boolean): unknown {
  if (!(error instanceof Error) || !('code' in error)) return error
  const { code } = error
  if (code === 'Z_BUF_ERROR') return hasBegun ? cut() : new BackupError('it is cut, or empty')
  if (typeof code !== 'string' || !code.startsWith('Z_')) return error
  if (!hasBegun) return new BackupError('it is not a backup of Setpoint', { cause: error })
  return new BackupError(`it is damaged: ${errorMessage(error)}`, { cause: error })
}

/** Yields the lines without their ends. @throws BackupError for one that is too long, or the last one without an end */
async function* linesOf(source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let pending: Buffer[] = []
  let pendingBytes = 0
  for await (const chunk of source) {
    let at = 0
    for (let end = chunk.indexOf(0x0a); end !== -1; end = chunk.indexOf(0x0a, at)) {
      const part = chunk.subarray(at, end)
      yield pending.length === 0 ? part : Buffer.concat([...pending, part])
      pending = []
      pendingBytes = 0
      at = end + 1
    }
    if (at === chunk.length) continue
    pending.push(chunk.subarray(at))
    pendingBytes += chunk.length - at
    if (pendingBytes > readerDefaults.lineBytes)
      throw new BackupError('it is not a backup of Setpoint: a line is too long')
  }
  if (pendingBytes > 0) throw cut()
}
