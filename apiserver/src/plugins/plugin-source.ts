import { mkdtempSync, rmSync } from 'node:fs'
import { readdir, rm } from 'node:fs/promises'
import { hostname, tmpdir } from 'node:os'
import { basename, dirname, join, resolve } from 'node:path'
import type { Logger } from '@setpoint/controller-runtime'
import { errorMessage } from '@setpoint/controller-runtime/api'
import { consoleFolder, discoverPlugins, type LoadedPlugin, loadPlugin } from './load-plugin.ts'
import { objectNameOf } from './load-plugins.ts'
import { PluginLoadError, readManifest } from './plugin-package.ts'
import { unpackArchive } from './unpack-archive.ts'

/** Where a plugin comes from. */
export interface PluginSource {
  readonly kind: 'folder' | 'package' | 'archive'
  /** Absolute path of the folder, of the package's folder, or of the archive. */
  readonly path: string
  /** For people: the path, or `npm:<name>` for a package. Identifies the source. */
  readonly label: string
}

/**
 * Returns the plugins of the installation, see `discoverPlugins`, without the console, which belongs to the program.
 */
export async function installedSources(): Promise<PluginSource[]> {
  const console = await consoleFolder()
  return (await discoverPlugins()).filter(dir => dir !== console).map(folderSource)
}

/** Returns the source of a plugin in a folder. */
function folderSource(dir: string): PluginSource {
  const path = resolve(dir)
  return { kind: 'folder', path, label: path }
}

/** Returns a valid object name for the plugin of a source, as long as its own name is unknown. */
export function provisionalName({ kind, path, label }: PluginSource): string {
  return objectNameOf(kind === 'package' ? label.slice('npm:'.length) : path.replace(/\.tgz$/, ''))
}

/** Loads the plugin of one source, each time with its present code. */
export interface CodeLoader {
  readonly source: PluginSource
  /** @throws PluginLoadError that names the source */
  load(): Promise<LoadedPlugin>
}

/**
 * Loads the plugin of one source from its files. Node never unloads a module, so every load after the
 * first one leaks the modules of the one before: as much memory as they hold.
 */
export class PluginLoader implements CodeLoader {
  readonly source: PluginSource
  readonly #log: Logger
  #generation = 0

  constructor(source: PluginSource, log: Logger) {
    this.source = source
    this.#log = log
  }

  async load(): Promise<LoadedPlugin> {
    const { label } = this.source
    const generation = this.#generation++
    try {
      const dir = await folderOf(this.source)
      return await loadPlugin(dir, { generation, log: this.#log })
    } catch (error) {
      if (error instanceof PluginLoadError)
        throw new PluginLoadError(label, error.problem, { cause: error.cause })
      throw new PluginLoadError(label, errorMessage(error), { cause: error })
    }
  }
}

/**
 * Checks that a source can be read as a package. A package whose code does not load is a plugin that fails.
 * @throws PluginLoadError or ArchiveError
 */
export async function checkSource(source: PluginSource): Promise<void> {
  const dir = await folderOf(source)
  try {
    await readManifest(dir)
  } finally {
    if (source.kind === 'archive') await rm(dirname(dir), { recursive: true, force: true })
  }
}

/** Returns the folder of a source, for an archive a new one. */
async function folderOf({ kind, path }: PluginSource): Promise<string> {
  return kind === 'archive' ? unpackToTemporaryFolder(path) : path
}

/** Folders that are removed when the process exits. */
const temporary: string[] = []

function removeTemporary(): void {
  for (const dir of temporary) rmSync(dir, { recursive: true, force: true })
}

/** Unpacks an archive into a new folder, which is removed when the process exits. */
async function unpackToTemporaryFolder(path: string): Promise<string> {
  if (temporary.length === 0) {
    process.once('exit', removeTemporary)
    await removeLeftBehind()
  }
  const parent = mkdtempSync(join(tmpdir(), `setpoint-plugin-${process.pid}-${hostname()}-`))
  temporary.push(parent)
  const dir = join(parent, basename(path, '.tgz'))
  await unpackArchive(path, dir)
  return dir
}

/**
 * Removes the folders of processes that were killed. Containers that share the folder have hosts' names of their own.
 */
async function removeLeftBehind(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    const [, pid, host] = /^setpoint-plugin-([0-9]+)-(.+)-[^-]{6}$/.exec(name) ?? []
    // Another user's folder cannot be removed, and stays.
    if (host === hostname() && !isRunning(Number(pid)))
      await rm(join(tmpdir(), name), { recursive: true }).catch(() => {})
  }
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    // EPERM: it is another user's process.
    return !(error instanceof Error && 'code' in error && error.code === 'ESRCH')
  }
}
