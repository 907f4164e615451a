import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { createGunzip } from 'node:zlib'
import { errorMessage } from '@setpoint/controller-runtime/api'
import type { Parser, ReadEntry } from 'tar'

/** Bounds of an archive. */
interface ArchiveBounds {
  readonly bytes: number
  readonly entries: number
}

export const archiveDefaults: ArchiveBounds = Object.freeze({
  /** Most bytes of all files: far above a plugin with its dependencies, and below what fills a disk. */
  bytes: 512 * 1024 * 1024,
  /** Most files and folders. */
  entries: 50_000,
})

/** An archive cannot be read as a package. */
export class ArchiveError extends Error {
  override readonly name = 'ArchiveError'
}

/**
 * Unpacks an archive as `npm pack` makes it: the first segment of every path, `package/`, is left out. Nothing is
 * written outside of `dir`: links, devices and paths with `..` are refused.
 * @throws ArchiveError if the file is not such an archive or exceeds a bound
 */
export async function unpackArchive(file: string, dir: string, bounds = archiveDefaults): Promise<void> {
  await checkArchive(file, bounds)
  await mkdir(dir, { recursive: true })
  const { Unpack } = await import('tar')
  const unpack = new Unpack({
    cwd: dir,
    strip: 1,
    strict: true,
    noMtime: true,
    preserveOwner: false,
  })
  await readInto(unpack, file, bounds)
}

/** Reads an archive without writing anything. Throws as `unpackArchive` does. */
export async function checkArchive(file: string, bounds = archiveDefaults): Promise<void> {
  let bytes = 0
  let entries = 0
  let isPackage = false
  let problem: string | undefined
  const onReadEntry = (entry: ReadEntry) => {
    entry.resume()
    bytes += entry.size
    entries++
    if (/^[^/]+\/package\.json$/.test(entry.path)) isPackage = true
    problem ??= problemOf(entry)
    if (bytes > bounds.bytes) problem ??= `it unpacks to more than ${bounds.bytes} bytes`
    if (entries > bounds.entries) problem ??= `it has more than ${bounds.entries} files`
  }
  // Most servers have no archives to load.
  const { Parser } = await import('tar')
  await readInto(new Parser({ strict: true, onReadEntry }), file, bounds)
  if (entries === 0) problem ??= 'it is not a gzipped tar archive'
  if (!isPackage) problem ??= `it has no ${join('package', 'package.json')}: make it with \`npm pack\``
  if (problem !== undefined) throw new ArchiveError(problem)
}

/** Room for the headers of one entry, with a long path. */
const headerBytes = 4096

/**
 * Feeds the content of an archive to a parser, up to the end of the archive: the parser copies everything after it once
 * more with each chunk.
 * @throws ArchiveError
 */
async function readInto(parser: Parser, file: string, bounds: ArchiveBounds): Promise<void> {
  const most = bounds.bytes + (bounds.entries + 1) * headerBytes
  const closed = once(parser, 'close')
  // Awaited below, unless reading fails first.
  closed.catch(() => {})
  let isOver = false
  parser.on('eof', () => {
    isOver = true
  })
  let failure: Error | undefined
  parser.on('error', error => {
    failure ??= error
  })
  let bytes = 0
  const feed = async (chunks: AsyncIterable<Buffer>) => {
    for await (const chunk of chunks) {
      bytes += chunk.length
      if (bytes > most) failure ??= new ArchiveError(`it unpacks to more than ${most} bytes`)
      if (failure !== undefined) throw failure
      if (!isOver && !parser.write(chunk)) await once(parser, 'drain')
    }
  }
  try {
    await pipeline(createReadStream(file), createGunzip(), feed)
    parser.end()
    await closed
  } catch (thrown) {
    // The pipeline may replace the reason by an AbortError.
    const error = failure ?? thrown
    if (error instanceof ArchiveError) throw error
    throw new ArchiveError(errorMessage(error), { cause: error })
  }
}

function problemOf({ path, type }: ReadEntry): string | undefined {
  const name = JSON.stringify(path)
  if (path.startsWith('/') || path.split(/[\\/]/).includes('..') || /^[A-Za-z]:/.test(path))
    return `its entry ${name} leads out of the folder`
  if (type !== 'File' && type !== 'OldFile' && type !== 'Directory')
    return `its entry ${name} is a ${type}; only files and folders are accepted`
  return undefined
}
