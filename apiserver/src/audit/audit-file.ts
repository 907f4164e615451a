import { type FileHandle, open, rename, stat } from 'node:fs/promises'
import type { Clock, Logger } from '@setpoint/controller-runtime'
import { systemClock } from '@setpoint/controller-runtime'
import { errorMessage } from '@setpoint/controller-runtime/api'
import type { AuditSink } from './audit-log.ts'
import { Losses } from './losses.ts'
import { backupPath, type RotationLimits, removeOldBackups } from './rotation.ts'

export const fileDefaults = Object.freeze({
  /** Characters that wait for the disk, most of them a byte each: about 20,000 events of the level Metadata. */
  bufferLength: 16 * 1024 * 1024,
  /** Milliseconds that an event waits for others. A write for each event would cost as much as a small request. */
  delayMs: 20,
  /** Characters of one write, of at most three bytes each. A file is larger than its limit by at most one event. */
  writeLength: 256 * 1024,
})

interface AuditFileOptions {
  readonly path: string
  readonly limits: RotationLimits
  readonly log: Logger
  /** Keeps other processes from the file until it is closed. @throws AuditFileError if another one has it */
  readonly lock?: () => Promise<FileLock | undefined>
  readonly clock?: Clock
}

interface FileLock {
  release(): Promise<void>
}

/** The audit file cannot be opened. */
export class AuditFileError extends Error {
  override readonly name = 'AuditFileError'
}

/**
 * Appends events to a file, one line each, and rotates it.
 *
 * Guarantees: never blocks a request. Lines are whole, except for one that a crash or a full disk cut off; what follows
 * it begins on a new line. Events that do not fit into the buffer, or cannot be written, are dropped and counted, and
 * later ones are written again as soon as it works.
 */
export class AuditFile implements AuditSink {
  readonly name = 'log'
  readonly #options: AuditFileOptions
  readonly #clock: Clock
  readonly #losses: Losses
  #handle: FileHandle | undefined
  #lock: FileLock | undefined
  #size = 0
  /** True if the file ends within a line. */
  #isCut = false
  #waiting: string[] = []
  /** The characters of the lines that wait or are being written. */
  #waitingLength = 0
  #writing: Promise<void> | undefined
  #isClosing = false
  /** Ends the pause before the next write. */
  #wake: () => void = () => {}

  private constructor(options: AuditFileOptions) {
    this.#options = options
    this.#clock = options.clock ?? systemClock
    this.#losses = new Losses(
      options.log,
      this.#clock,
      { path: options.path },
      'failed to write or rotate the audit log',
    )
  }

  /** Opens the file, with access for its owner only if it is new. @throws AuditFileError */
  static async open(options: AuditFileOptions): Promise<AuditFile> {
    const file = new AuditFile(options)
    try {
      await file.#open()
      file.#lock = await options.lock?.()
      await removeOldBackups(options.path, options.limits, file.#clock.now())
    } catch (error) {
      await file.close()
      if (error instanceof AuditFileError) throw error
      throw new AuditFileError(
        `cannot open the audit log ${JSON.stringify(options.path)}: ${errorMessage(error)}`,
        {
          cause: error,
        },
      )
    }
    return file
  }

  get dropped(): number {
    return this.#losses.dropped
  }

  write(event: string): void {
    const length = event.length + 1
    if (this.#waitingLength + length > fileDefaults.bufferLength) {
      this.#losses.drop(1, 'the disk is too slow')
      return
    }
    this.#waiting.push(event)
    this.#waitingLength += length
    this.#writing ??= this.#writeAll()
    if (this.#waitingLength >= fileDefaults.writeLength) this.#wake()
  }

  async close(): Promise<void> {
    this.#isClosing = true
    this.#wake()
    await this.#writing
    await this.#handle?.close()
    this.#handle = undefined
    await this.#lock?.release()
  }

  /** Writes until nothing waits. Never rejects. */
  async #writeAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      if (this.#waitingLength < fileDefaults.writeLength && !this.#isClosing) await this.#pause()
      const lines = `${this.#take().join('\n')}\n`
      const bytes = Buffer.from(lines)
      let written = 0
      try {
        const handle = await this.#handleFor(bytes.length)
        if (this.#isCut) await handle.write(newline)
        this.#isCut = false
        while (written < bytes.length) {
          const { bytesWritten } = await handle.write(bytes, written)
          written += bytesWritten
          this.#size += bytesWritten
        }
      } catch (error) {
        this.#losses.drop(linesIn(bytes.subarray(written)), error)
        // Opening it again shows how it ends.
        await this.#handle?.close().catch(() => {})
        this.#handle = undefined
      }
      this.#waitingLength -= lines.length
    }
    this.#writing = undefined
  }

  #pause(): Promise<void> {
    return new Promise(resolve => {
      const cancel = this.#clock.setTimeout(resolve, fileDefaults.delayMs, { unref: true })
      this.#wake = () => {
        cancel()
        resolve()
      }
    })
  }

  /** Takes the events of one write: at least one. */
  #take(): string[] {
    const { writeLength } = fileDefaults
    if (this.#waitingLength <= writeLength) return this.#waiting.splice(0)
    let length = 0
    const end = this.#waiting.findIndex(event => {
      length += event.length + 1
      return length > writeLength
    })
    return this.#waiting.splice(0, end < 0 ? this.#waiting.length : Math.max(end, 1))
  }

  /** Returns the handle for a write of so many bytes, of a new file if the present one would become too large. */
  async #handleFor(bytes: number): Promise<FileHandle> {
    const { path, limits } = this.#options
    if (this.#handle !== undefined && this.#size > 0 && this.#size + bytes > limits.bytes) {
      const now = this.#clock.now()
      await this.#handle.close()
      this.#handle = undefined
      await rename(path, await backupPath(path, now))
      await removeOldBackups(path, limits, now).catch(error => this.#losses.report(error))
    }
    return this.#handle ?? (await this.#open())
  }

  async #open(): Promise<FileHandle> {
    const { path } = this.#options
    // Opening a pipe or a terminal could block.
    const found = await stat(path).catch(() => undefined)
    if (found?.isFile() === false) throw new Error('it is not a regular file')
    const handle = await open(path, 'a+', 0o600)
    const { size } = await handle.stat()
    const last = Buffer.alloc(1)
    if (size > 0) await handle.read(last, 0, 1, size - 1)
    this.#isCut = size > 0 && last[0] !== newline[0]
    this.#size = size
    this.#handle = handle
    return handle
  }
}

const newline = Buffer.from('\n')

/** Counts the line ends. */
function linesIn(bytes: Buffer): number {
  let count = 0
  for (let at = bytes.indexOf(newline); at >= 0; at = bytes.indexOf(newline, at + 1)) count++
  return count
}
