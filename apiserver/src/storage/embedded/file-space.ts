import { type FileHandle, open } from 'node:fs/promises'
import type { EmbeddedBounds } from './defaults.ts'

/**
 * Allocates disk space for the database file ahead of LMDB, by writing zeros after its end.
 *
 * On a full disk, a commit of lmdb 3.5.6 overruns a buffer and crashes the process. Allocating before the commit turns
 * that into an error. Allocated space also syncs faster.
 *
 *     0 ---- pages of LMDB ---- used ---- next commit ---- reserve ---- allocated
 *
 * LMDB writes only below `allocated` and this class only at or above it, so both may write at the same time.
 */
export class FileSpace {
  readonly #file: FileHandle
  readonly #bounds: EmbeddedBounds
  #allocated: number
  #allocating: Promise<void> | undefined
  /** True if the last allocation failed. Then space is allocated only when a commit needs it. */
  #isFull = false

  private constructor(file: FileHandle, allocated: number, bounds: EmbeddedBounds) {
    this.#file = file
    this.#allocated = allocated
    this.#bounds = bounds
  }

  /** @param path the file, which LMDB has open. */
  static async open(path: string, bounds: EmbeddedBounds): Promise<FileSpace> {
    const file = await open(path, 'r+')
    return new FileSpace(file, (await file.stat()).size, bounds)
  }

  /** The bytes of the file. */
  get allocatedBytes(): number {
    return this.#allocated
  }

  /** Returns true if `ensure(end)` would allocate space, now or ahead. */
  isLow(end: number): boolean {
    return this.#allocated - end < this.#bounds.spaceAheadBytes / 2
  }

  /**
   * Resolves when space is allocated up to `end`, in bytes.
   * @throws the error of the system, such as ENOSPC.
   */
  async ensure(end: number): Promise<void> {
    while (this.#allocated < end) await this.#allocate(end)
    // Allocates ahead while the commit runs. A failure shows when the space is needed.
    if (this.isLow(end) && !this.#isFull) void this.#allocate(end).catch(() => {})
  }

  async close(): Promise<void> {
    await this.#allocating?.catch(() => {})
    await this.#file.close()
  }

  #allocate(end: number): Promise<void> {
    this.#allocating ??= this.#write(
      end + Math.max(this.#bounds.spaceAheadBytes, Math.floor(end / 16)),
    ).finally(() => {
      this.#allocating = undefined
    })
    return this.#allocating
  }

  async #write(end: number): Promise<void> {
    try {
      while (this.#allocated < end) {
        const length = Math.min(zeros.length, end - this.#allocated)
        const { bytesWritten } = await this.#file.write(zeros, 0, length, this.#allocated)
        this.#allocated += bytesWritten
      }
      this.#isFull = false
    } catch (error) {
      this.#isFull = true
      throw error
    }
  }
}

const zeros = Buffer.alloc(1024 * 1024)
