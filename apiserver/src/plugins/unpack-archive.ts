import { mkdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { ReadEntry } from 'tar'

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
 * Unpacks an archive as `npm pack` makes it: the first segment of every path, `package/`, is left out. Nothing is written
 * outside of `dir`: links, devices and paths with `..` are refused.
 * @throws ArchiveError if the file is not such an archive or exceeds a bound
 */
export async function unpackArchive(file: string, dir: string, bounds = archiveDefaults): Promise<void> {
  await checkArchive(file, bounds)
  await mkdir(dir, { recursive: true })
  const { extract } = await import('tar')
  await extract({
    file,
    cwd: dir,
    strip: 1,
    strict: true,
    noChmod: true,
    noMtime: true,
    preserveOwner: false,
  })
}

/** Reads an archive without writing anything. Throws as `unpackArchive` does. */
export async function checkArchive(file: string, bounds = archiveDefaults): Promise<void> {
  let bytes = 0
  let entries = 0
  let isPackage = false
  let problem: string | undefined
  const check = (entry: ReadEntry) => {
    bytes += entry.size
    entries++
    if (/^[^/]+\/package\.json$/.test(entry.path)) isPackage = true
    problem ??= problemOf(entry)
    if (bytes > bounds.bytes) problem ??= `it unpacks to more than ${bounds.bytes} bytes`
    if (entries > bounds.entries) problem ??= `it has more than ${bounds.entries} files`
  }
  // Most servers have no archives to load.
  const { list } = await import('tar')
  try {
    const { size } = await stat(file)
    if (size > bounds.bytes) throw new ArchiveError(`it has more than ${bounds.bytes} bytes`)
    await list({ file, strict: true, onReadEntry: check })
  } catch (error) {
    if (error instanceof ArchiveError) throw error
    throw new ArchiveError(error instanceof Error ? error.message : String(error), { cause: error })
  }
  if (entries === 0) problem ??= 'it is not a gzipped tar archive'
  if (!isPackage) problem ??= `it has no ${join('package', 'package.json')}: make it with \`npm pack\``
  if (problem !== undefined) throw new ArchiveError(problem)
}

function problemOf({ path, type }: ReadEntry): string | undefined {
  const name = JSON.stringify(path)
  if (path.startsWith('/') || path.split(/[\\/]/).includes('..') || /^[A-Za-z]:/.test(path))
    return `its entry ${name} leads out of the folder`
  if (type !== 'File' && type !== 'OldFile' && type !== 'Directory')
    return `its entry ${name} is a ${type}; only files and folders are accepted`
  return undefined
}
