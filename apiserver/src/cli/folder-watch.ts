import { type FSWatcher, watch } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { extname, join, relative } from 'node:path'
import { type CancelTimer, type Clock, systemClock } from '@setpoint/controller-runtime/internal'

export const folderWatchDefaults = Object.freeze({
  /** Milliseconds without a change before a change is reported: editors and compilers write several files at once. */
  quietMs: 50,
  /** Files of a plugin, and its tests, by their extension. A plugin may write files of other types into its folder. */
  extensions: ['.js', '.mjs', '.cjs', '.ts', '.mts', '.cts', '.json', '.yaml', '.yml'],
})

interface FolderWatchOptions {
  /** Absolute path. */
  readonly dir: string
  /** A folder below `dir` that is not watched, as an absolute path. */
  readonly output?: string
  /**
   * Gets the changed files, and new folders with files, as paths relative to `dir`. Never called concurrently. Must not
   * reject.
   */
  readonly changed: (paths: ReadonlySet<string>) => Promise<void>
  /** Called for a folder that cannot be watched. */
  readonly failed: (error: unknown, dir: string) => void
  readonly clock?: Clock
}

/**
 * Reports changes of the source files in a folder and its subfolders, except hidden ones and `node_modules`. Watches
 * each folder on its own, because Node's recursive watch would also watch every file in `node_modules`.
 */
export class FolderWatch {
  readonly #options: FolderWatchOptions
  readonly #clock: Clock
  readonly #watchers = new Map<string, FSWatcher>()
  #cancel: CancelTimer = () => {}
  /** What has changed since the last report. */
  #changed = new Set<string>()
  #isBusy = false
  /** True if something has happened while busy. */
  #isStale = false
  #isClosed = false

  private constructor(options: FolderWatchOptions) {
    this.#options = options
    this.#clock = options.clock ?? systemClock
  }

  /** Resolves when every folder is watched. */
  static async open(options: FolderWatchOptions): Promise<FolderWatch> {
    const opened = new FolderWatch(options)
    opened.#isBusy = true
    await opened.#scan()
    opened.#rest()
    return opened
  }

  close(): void {
    this.#isClosed = true
    this.#cancel()
    for (const watcher of this.#watchers.values()) watcher.close()
    this.#watchers.clear()
  }

  /** Watches new folders and forgets removed ones. Returns the new ones that have source files. */
  async #scan(): Promise<string[]> {
    const found = new Map<string, boolean>()
    await this.#find(this.#options.dir, found)
    if (this.#isClosed) return []
    for (const [dir, watcher] of this.#watchers) {
      if (found.has(dir)) continue
      watcher.close()
      this.#watchers.delete(dir)
    }
    const added = [...found].filter(([dir]) => !this.#watchers.has(dir))
    for (const [dir] of added) this.#watch(dir)
    return added.filter(([, hasSources]) => hasSources).map(([dir]) => dir)
  }

  /** Adds a folder and those below it, each with whether it has source files. */
  async #find(dir: string, found: Map<string, boolean>): Promise<void> {
    // A folder may be removed at any time.
    const entries = await readdir(dir, { withFileTypes: true }).catch(() => [])
    const used = entries.filter(({ name }) => !this.#isIgnored(join(dir, name)))
    found.set(
      dir,
      used.some(entry => entry.isFile() && isSource(entry.name)),
    )
    const folders = used.filter(entry => entry.isDirectory())
    await Promise.all(folders.map(({ name }) => this.#find(join(dir, name), found)))
  }

  #watch(dir: string): void {
    const fail = (error: unknown) => {
      this.#watchers.get(dir)?.close()
      this.#watchers.delete(dir)
      this.#options.failed(error, dir)
    }
    try {
      const watcher = watch(dir, (_event, name) => {
        this.#happened(name === null ? dir : join(dir, name))
      })
      watcher.on('error', fail)
      this.#watchers.set(dir, watcher)
    } catch (error) {
      fail(error)
    }
  }

  #isIgnored(path: string): boolean {
    const { dir, output } = this.#options
    const parts = relative(dir, path).split(/[\\/]/)
    return path === output || parts.some(part => part.startsWith('.') || part === 'node_modules')
  }

  #happened(path: string): void {
    // A name without an extension may be that of a folder, which is scanned.
    if (this.#isIgnored(path) || (extname(path) !== '' && !isSource(path))) return
    if (isSource(path)) this.#note(path)
    if (this.#isBusy) this.#isStale = true
    else this.#schedule()
  }

  #note(path: string): void {
    this.#changed.add(relative(this.#options.dir, path))
  }

  #schedule(): void {
    if (this.#isClosed) return
    this.#cancel()
    this.#cancel = this.#clock.setTimeout(() => void this.#report(), folderWatchDefaults.quietMs)
  }

  async #report(): Promise<void> {
    this.#isBusy = true
    this.#isStale = false
    for (const folder of await this.#scan()) this.#note(folder)
    const changed = this.#changed
    this.#changed = new Set()
    if (changed.size > 0 && !this.#isClosed) await this.#options.changed(changed)
    this.#rest()
  }

  #rest(): void {
    this.#isBusy = false
    if (this.#isStale) this.#schedule()
  }
}

function isSource(path: string): boolean {
  return folderWatchDefaults.extensions.includes(extname(path))
}

/** Returns true for a test, which the plugin does not load. The compiler checks it with the plugin. */
export function isTest(path: string): boolean {
  return /\.(test|spec)\.[cm]?[jt]s$/.test(path)
}
