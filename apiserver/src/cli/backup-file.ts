import { randomBytes } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { access, type FileHandle, link, open, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { Readable } from 'node:stream'
import { unsealed } from '../operations/index.ts'
import { UsageError } from './flags-values.ts'

/**
 * A file that gets its name when it is complete. Until then it is beside it, with a name that ends in `.partial`, which
 * only a killed process leaves. Only its owner can read it.
 */
export class CompleteFile {
  readonly path: string
  readonly #partial: string
  readonly #file: FileHandle
  readonly #force: boolean

  private constructor(path: string, partial: string, file: FileHandle, force: boolean) {
    this.path = path
    this.#partial = partial
    this.#file = file
    this.#force = force
  }

  /** @throws UsageError if the file exists and `force` is false; the error of the system */
  static async create(path: string, force: boolean): Promise<CompleteFile> {
    if (!force && (await exists(path))) throw alreadyThere(path)
    const partial = `${path}.${randomBytes(4).toString('hex')}.partial`
    return new CompleteFile(path, partial, await open(partial, 'wx', 0o600), force)
  }

  async write(bytes: Buffer): Promise<void> {
    for (let at = 0; at < bytes.length; ) {
      const { bytesWritten } = await this.#file.write(bytes, at)
      at += bytesWritten
    }
  }

  /** Makes the content durable and gives it its name. */
  async complete(): Promise<void> {
    await this.#file.sync()
    await this.#file.close()
    if (this.#force) await rename(this.#partial, this.path)
    else {
      // Unlike a rename, it fails if the file has appeared meanwhile.
      await link(this.#partial, this.path).catch((error: NodeJS.ErrnoException) => {
        throw error.code === 'EEXIST' ? alreadyThere(this.path) : error
      })
      await rm(this.#partial)
    }
    await syncFolder(dirname(this.path))
  }

  /** Removes what is there. */
  async discard(): Promise<void> {
    await this.#file.close().catch(() => {})
    await rm(this.#partial, { force: true })
  }
}

/** Reads a backup from the start, and decrypts it if there is a key. `-` is standard input. */
export function readBackupFile(path: string, key: Buffer | undefined): Readable {
  const source = path === '-' ? process.stdin : createReadStream(path, { highWaterMark: 256 * 1024 })
  return Readable.from(unsealed(source, key), { objectMode: true, highWaterMark: 1 })
}

function alreadyThere(path: string): UsageError {
  return new UsageError(`${path} exists: give another name, or --force to replace it`)
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}

async function syncFolder(path: string): Promise<void> {
  if (process.platform === 'win32') return
  const folder = await open(path, 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}
