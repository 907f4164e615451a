import { type FileHandle, open } from 'node:fs/promises'
import type { EmbeddedBounds } from './defaults.ts'

/**
 * Takes disk space for the database file ahead of LMDB, by writing zeros after its end.
 *
 * A commit then cannot meet a full disk. It must not: lmdb 3.5.6 writes its report of that past the end of a buffer,
 * and the process dies. A full disk shows here instead, before the commit has begun. Space that has been taken is also
 * quicker to sync than space that each commit takes for itself.
 *
 *     0 ---- pages of LMDB ---- used ---- what a commit may need ---- reserve ---- taken
 *
 * LMDB writes below `taken` only, this class at or above it only, so the two may run at the same time.
 */
export class FileSpace {
  readonly #file: FileHandle
  readonly #bounds: EmbeddedBounds
  #taken: number
  #taking: Promise<void> | undefined
  /** Whether the last attempt failed: then another is made only when it is needed. */
  #isFull = false

  private constructor(file: FileHandle, taken: number, bounds: EmbeddedBounds) {
    this.#file = file
    this.#taken = taken
    this.#bounds = bounds
  }

  /** @param path a file that LMDB has open, and nobody else writes to. */
  static async open(path: string, bounds: EmbeddedBounds): Promise<FileSpace> {
    const file = await open(path, 'r+')
    return new FileSpace(file, (await file.stat()).size, bounds)
  }

  /** Whether `ensure` would take space for an end like this, now or ahead. */
  isLow(end: number): boolean {
    return this.#taken - end < this.#bounds.spaceAheadBytes / 2
  }

  /**
   * Resolves when the file has space up to `end`, in bytes.
   * @throws the system's error, such as ENOSPC.
   */
  async ensure(end: number): Promise<void> {
    while (this.#taken < end) await this.#take(end)
    // Ahead of need, while the commit runs. What comes of it shows when it is needed.
    if (this.isLow(end) && !this.#isFull) void this.#take(end).catch(() => {})
  }

  async close(): Promise<void> {
    await this.#taking?.catch(() => {})
    await this.#file.close()
  }

  #take(end: number): Promise<void> {
    this.#taking ??= this.#write(end + Math.max(this.#bounds.spaceAheadBytes, Math.floor(end / 16))).finally(
      () => {
        this.#taking = undefined
      },
    )
    return this.#taking
  }

  async #write(end: number): Promise<void> {
    try {
      while (this.#taken < end) {
        const length = Math.min(zeros.length, end - this.#taken)
        const { bytesWritten } = await this.#file.write(zeros, 0, length, this.#taken)
        this.#taken += bytesWritten
      }
      this.#isFull = false
    } catch (error) {
      this.#isFull = true
      throw error
    }
  }
}

const zeros = Buffer.alloc(1024 * 1024)
