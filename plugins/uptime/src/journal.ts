import { appendFile, mkdir, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'

export const journalDefaults = Object.freeze({
  /**
   * Bytes after which a file becomes the old one and a new one is begun: about two thousand changes of state, and at
   * most twice this on the disk for a probe that changes all the time.
   */
  fileBytes: 256 * 1024,
})

/** One line of a journal: a probe has changed its state. */
export interface JournalEntry {
  /** RFC 3339 UTC, when it was found: later for each change of a probe. */
  readonly time: string
  /** Name of the probe. */
  readonly probe: string
  readonly url: string
  /** null: the first check of the probe. */
  readonly from: string | null
  readonly to: string
  readonly message: string
}

/**
 * Changes of state that outlive the history in a probe's status: one file of JSON lines for each probe, named by
 * its uid, so that a later probe of the same name begins anew.
 *
 *     <folder>/<uid>.jsonl        the newest entries, in order of time
 *     <folder>/<uid>.old.jsonl    those before them, where there were that many
 *
 * It is what the plugin keeps outside of the objects, and so what its finalizer has to remove. Entries of one probe
 * are noted one after the other: the controller never runs one object twice at once.
 */
export class Journal {
  readonly #folder: string
  readonly #fileBytes: number

  /** @param folder is made, for this user only, when the first entry is written */
  constructor(folder: string, { fileBytes }: { fileBytes: number } = journalDefaults) {
    this.#folder = folder
    this.#fileBytes = fileBytes
  }

  /** Writes a change down, unless it, or a later one, was written before. @throws the file system's error. */
  async note(uid: string, change: Omit<JournalEntry, 'from'>): Promise<void> {
    const { current, old } = this.#files(uid)
    const text = await readFile(current, 'utf8').catch(absent)
    const last = lastEntry(text ?? (await readFile(old, 'utf8').catch(absent)) ?? '')
    if (last !== undefined && last.time >= change.time) return
    await mkdir(this.#folder, { recursive: true, mode: 0o700 })
    if (text !== undefined && text.length >= this.#fileBytes) await rename(current, old)
    // A line break first where a full disk has left half a line.
    const begin = text === undefined || text.endsWith('\n') ? '' : '\n'
    const entry: JournalEntry = { ...change, from: last?.to ?? null }
    await appendFile(current, `${begin}${JSON.stringify(entry)}\n`, { mode: 0o600 })
  }

  /** Removes what is kept of a probe; it may have been removed before. @throws the file system's error. */
  async remove(uid: string): Promise<void> {
    const { current, old } = this.#files(uid)
    await Promise.all([rm(current, { force: true }), rm(old, { force: true })])
  }

  #files(uid: string): { current: string; old: string } {
    // It becomes part of a path, and comes from whichever server the controllers were pointed at.
    if (!/^[A-Za-z0-9-]{1,64}$/.test(uid)) throw new RangeError(`not a uid: ${JSON.stringify(uid)}`)
    return { current: join(this.#folder, `${uid}.jsonl`), old: join(this.#folder, `${uid}.old.jsonl`) }
  }
}

/** The last line that is whole. */
function lastEntry(text: string): JournalEntry | undefined {
  const line = text.match(/^{.*}$/gm)?.at(-1)
  return line && JSON.parse(line)
}

/** For a file that does not exist: undefined. Any other error goes on. */
function absent(error: unknown): undefined {
  if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
  throw error
}
