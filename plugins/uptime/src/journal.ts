import { appendFile, mkdir, readFile, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export const journalDefaults = Object.freeze({
  /** A file is rotated at this size in bytes: about two thousand changes. A probe uses at most twice this on disk. */
  fileBytes: 256 * 1024,
})

/** One line of a journal: a change of a probe's state. */
export interface JournalEntry {
  /** RFC 3339 UTC, the start of the check; rises with each change of a probe. */
  readonly time: string
  /** The name of the probe. */
  readonly probe: string
  readonly url: string
  /** null for the first check of the probe. */
  readonly from: string | null
  readonly to: string
  readonly message: string
}

/**
 * Returns `UPTIME_JOURNAL_DIR`, or by default a folder of this user in the temporary folder, which users may share.
 * @param user undefined on Windows, where each user has a temporary folder of their own
 */
export function journalFolder(
  { UPTIME_JOURNAL_DIR: given }: Readonly<Record<string, string | undefined>>,
  user = process.getuid?.(),
): string {
  return given || join(tmpdir(), user === undefined ? 'setpoint-uptime' : `setpoint-uptime-${user}`)
}

/**
 * A journal of state changes beyond the history in the status: one file of JSON lines per probe, named by its uid, so
 * that a recreated probe starts a new one.
 *
 *     <folder>/<uid>.jsonl        the newest entries, in order of time
 *     <folder>/<uid>.old.jsonl    older entries, if any
 *
 * It is the plugin's state outside of the API, which its finalizer removes. The controller never runs an object twice
 * at once, so entries of a probe need no lock.
 */
export class Journal {
  readonly #folder: string
  readonly #fileBytes: number

  /** @param folder created with the first entry, for this user only */
  constructor(folder: string, { fileBytes }: { fileBytes: number } = journalDefaults) {
    this.#folder = folder
    this.#fileBytes = fileBytes
  }

  /** Appends a change, unless it or a later one was written before. @throws the file system's error. */
  async note(uid: string, change: Omit<JournalEntry, 'from'>): Promise<void> {
    const { current, old } = this.#files(uid)
    const text = await readFile(current, 'utf8').catch(absent)
    const last = lastEntry(text ?? (await readFile(old, 'utf8').catch(absent)) ?? '')
    if (last !== undefined && last.time >= change.time) return
    await mkdir(this.#folder, { recursive: true, mode: 0o700 })
    if (text !== undefined && text.length >= this.#fileBytes) await rename(current, old)
    // Ends a line that was truncated by a full disk.
    const begin = text === undefined || text.endsWith('\n') ? '' : '\n'
    const entry: JournalEntry = { ...change, from: last?.to ?? null }
    await appendFile(current, `${begin}${JSON.stringify(entry)}\n`, { mode: 0o600 })
  }

  /** Removes the files of a probe; idempotent. @throws the file system's error. */
  async remove(uid: string): Promise<void> {
    const { current, old } = this.#files(uid)
    await Promise.all([rm(current, { force: true }), rm(old, { force: true })])
  }

  #files(uid: string): { current: string; old: string } {
    // It becomes part of a path, and comes from a possibly untrusted server.
    if (!/^[A-Za-z0-9-]{1,64}$/.test(uid)) throw new RangeError(`not a uid: ${JSON.stringify(uid)}`)
    return { current: join(this.#folder, `${uid}.jsonl`), old: join(this.#folder, `${uid}.old.jsonl`) }
  }
}

/** Returns the last complete entry. */
function lastEntry(text: string): JournalEntry | undefined {
  const line = text.match(/^{.*}$/gm)?.at(-1)
  return line && JSON.parse(line)
}

/** Returns undefined for a missing file; rethrows other errors. */
function absent(error: unknown): undefined {
  if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
  throw error
}
