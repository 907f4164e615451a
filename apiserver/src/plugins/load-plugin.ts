import { readdir, readFile, stat } from 'node:fs/promises'
import { basename, extname, join, relative, resolve, sep } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { isPlugin, type Plugin } from '@setpoint/controller-runtime'
import semver from 'semver'
import { findSyntaxError, placeOf } from './error-place.ts'
import { installModuleHooks } from './module-hooks.ts'

/** A plugin with what its folder says about it. */
export interface LoadedPlugin {
  /** Absolute path of its folder. */
  readonly dir: string
  /** `name` of its package.json, or the folder's name where it has none. */
  readonly packageName: string
  /** `version` of its package.json; 0.0.0 where that is absent or no semantic version. */
  readonly packageVersion: string
  readonly plugin: Plugin
  /** Absolute path of the folder of its resources, where there is one. */
  readonly resourcesDir: string | undefined
}

/** A folder cannot be loaded as a plugin. The message names folder and file, and what to do. */
export class PluginLoadError extends Error {
  override readonly name = 'PluginLoadError'
  readonly dir: string

  constructor(dir: string, problem: string, options?: ErrorOptions) {
    super(`plugin ${dir}: ${problem}`, options)
    this.dir = dir
  }
}

export const loadDefaults = Object.freeze({
  /**
   * Milliseconds that a plugin's module may take to be imported, its top-level awaits included. Code alone takes
   * well below a second, and whatever waits longer would keep the whole server waiting.
   */
  importTimeoutMs: 30_000,
})

/** `plugins/` beside this server's package: in the repository, and where the repository is installed as it is. */
const installedPlugins = fileURLToPath(new URL('../../../plugins/', import.meta.url))

/**
 * The folders to load plugins from, as absolute paths without repetition: `dirs`, or where that is undefined every
 * folder of the installation's `plugins/` that has a package.json, by name. Given folders are not looked at here.
 */
export async function discoverPlugins(
  dirs: readonly string[] | undefined,
  installation: string = installedPlugins,
): Promise<string[]> {
  if (dirs !== undefined) return [...new Set(dirs.map(dir => resolve(dir)))]
  const names = await readdir(installation).catch(absent)
  const found: string[] = []
  for (const name of (names ?? []).sort()) {
    const dir = join(installation, name)
    if (!name.startsWith('.') && (await kindOf(join(dir, 'package.json'))) === 'file') found.push(dir)
  }
  return found
}

/**
 * Loads the plugin in a folder: imports the module that its package.json names, which must export by default what
 * `definePlugin` made. The SDK that it imports is the server's.
 *
 * A module is imported once in a process: loading the folder again gives the same plugin, or the same error.
 * @throws PluginLoadError whatever is wrong with the folder; `cause` is what was thrown, with its stack.
 */
export async function loadPlugin(
  dir: string,
  { importTimeoutMs }: { importTimeoutMs: number } = loadDefaults,
): Promise<LoadedPlugin> {
  const folder = resolve(dir)
  try {
    return await load(folder, importTimeoutMs)
  } catch (error) {
    if (error instanceof PluginLoadError) throw error
    // Such as a file that may not be read.
    throw new PluginLoadError(folder, messageOf(error), { cause: error })
  }
}

async function load(folder: string, importTimeoutMs: number): Promise<LoadedPlugin> {
  const manifest = await readManifest(folder)
  const entry = await findEntry(folder, manifest)
  const resourcesDir = await findResources(folder, manifest)
  const plugin = pluginOf(folder, entry, await importEntry(folder, entry, importTimeoutMs))
  const { name, version } = manifest
  return {
    dir: folder,
    packageName: typeof name === 'string' && name !== '' ? name : basename(folder),
    packageVersion: typeof version === 'string' && semver.valid(version) !== null ? version : '0.0.0',
    plugin,
    resourcesDir,
  }
}

/** The fields of a package.json that count here; nothing is known of their types. */
interface Manifest {
  readonly name?: unknown
  readonly version?: unknown
  readonly type?: unknown
  readonly main?: unknown
  readonly exports?: unknown
  readonly setpoint?: unknown
}

async function readManifest(dir: string): Promise<Manifest> {
  const kind = await kindOf(dir)
  if (kind === undefined) throw new PluginLoadError(dir, 'there is no such folder')
  if (kind !== 'directory') throw new PluginLoadError(dir, 'is not a folder')
  const text = await readFile(join(dir, 'package.json'), 'utf8').catch(absent)
  if (text === undefined)
    throw new PluginLoadError(dir, 'has no package.json; a plugin needs one that names its module')
  let manifest: unknown
  try {
    manifest = JSON.parse(text.replace(/^\uFEFF/, ''))
  } catch (error) {
    throw new PluginLoadError(dir, `package.json is not JSON: ${messageOf(error)}`, { cause: error })
  }
  if (!isRecord(manifest)) throw new PluginLoadError(dir, 'package.json must hold a JSON object')
  return manifest
}

/** Absolute path of the module to import. */
async function findEntry(dir: string, { exports, main, type }: Manifest): Promise<string> {
  const target = exports === undefined ? main : exportTarget(mainExport(exports))
  const field = exports === undefined ? 'main' : 'exports'
  if (target === undefined) {
    const problem =
      exports === undefined
        ? 'package.json names no module; give it "exports": "./index.js", or "main"'
        : 'package.json: "exports" has no "." for an import; give it "exports": "./index.js"'
    throw new PluginLoadError(dir, problem)
  }
  if (typeof target !== 'string' || target === '') {
    throw new PluginLoadError(
      dir,
      `package.json: "${field}" must be the path of a module such as "./index.js"`,
    )
  }
  const entry = resolve(dir, target)
  if (!isInside(dir, entry) || (field === 'exports' && !target.startsWith('./'))) {
    throw new PluginLoadError(
      dir,
      `package.json: "${field}" must be a path within the folder such as "./index.js", is ${JSON.stringify(target)}`,
    )
  }
  const extension = extname(entry)
  if (extension !== '.js' && extension !== '.mjs') {
    const advice = /^\.[cm]?tsx?$/.test(extension)
      ? 'compile it and name the result'
      : 'a plugin is an ES module'
    throw new PluginLoadError(
      dir,
      `${target} ("${field}" of package.json) must be a .js or .mjs file: ${advice}`,
    )
  }
  if (extension === '.js' && type !== 'module') {
    throw new PluginLoadError(
      dir,
      `package.json needs "type": "module" for ${target} to be an ES module (or give the file the ending .mjs)`,
    )
  }
  if ((await kindOf(entry)) !== 'file') {
    throw new PluginLoadError(
      dir,
      `${target} ("${field}" of package.json) does not exist; if it is compiled from TypeScript, build it first`,
    )
  }
  return entry
}

/** What `exports` says for the package itself, in whichever of its forms. */
function mainExport(exports: unknown): unknown {
  const hasSubpaths = isRecord(exports) && Object.keys(exports).some(key => key.startsWith('.'))
  return hasSubpaths ? exports['.'] : exports
}

/** The conditions that hold for an import by this server, besides `default`. */
const conditions: ReadonlySet<string> = new Set(['node', 'import', 'module-sync', 'default'])

/** As Node resolves it: the first condition that holds and leads to a path, the first usable one of a list. */
function exportTarget(target: unknown): unknown {
  if (Array.isArray(target)) {
    return target.map(exportTarget).find(each => each !== undefined)
  }
  if (!isRecord(target)) return target ?? undefined
  for (const [condition, value] of Object.entries(target)) {
    const found = conditions.has(condition) ? exportTarget(value) : undefined
    if (found !== undefined) return found
  }
  return undefined
}

async function findResources(dir: string, { setpoint }: Manifest): Promise<string | undefined> {
  const named: unknown = isRecord(setpoint) ? setpoint.resources : undefined
  if (setpoint !== undefined && !isRecord(setpoint)) {
    throw new PluginLoadError(
      dir,
      'package.json: "setpoint" must be an object such as {"resources": "./resources"}',
    )
  }
  if (named !== undefined && (typeof named !== 'string' || named === '')) {
    throw new PluginLoadError(dir, 'package.json: "setpoint.resources" must be the path of a folder')
  }
  const resources = resolve(dir, named ?? 'resources')
  if ((await kindOf(resources)) === 'directory') return resources
  if (named === undefined) return undefined
  throw new PluginLoadError(
    dir,
    `${named} ("setpoint.resources" of package.json) is not a folder: create it or name another`,
  )
}

async function importEntry(dir: string, entry: string, timeoutMs: number): Promise<object> {
  installModuleHooks()
  const file = relative(dir, entry)
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(
        new PluginLoadError(
          dir,
          `${file} was not imported after ${timeoutMs} ms: a top-level await in it, or in what it imports, does not settle`,
        ),
      )
    }, timeoutMs)
  })
  try {
    const imported: Promise<object> = import(pathToFileURL(entry).href)
    return await Promise.race([imported, late])
  } catch (error) {
    if (error instanceof PluginLoadError) throw error
    const problem = await describeImportError(error, dir, entry)
    throw new PluginLoadError(dir, `${file} cannot be imported: ${problem}`, { cause: error })
  } finally {
    clearTimeout(timer)
  }
}

function pluginOf(dir: string, entry: string, module: object): Plugin {
  const file = relative(dir, entry)
  if (!('default' in module)) {
    throw new PluginLoadError(
      dir,
      `${file} has no default export; it needs \`export default definePlugin({ ... })\``,
    )
  }
  const plugin: unknown = module.default
  if (!isPlugin(plugin)) {
    throw new PluginLoadError(
      dir,
      `the default export of ${file} was not made by definePlugin of @setpoint/controller-runtime`,
    )
  }
  return plugin
}

/** What is at a path; undefined where nothing is. */
async function kindOf(path: string): Promise<'file' | 'directory' | 'other' | undefined> {
  const found = await stat(path).catch(absent)
  if (found === undefined) return undefined
  return found.isFile() ? 'file' : found.isDirectory() ? 'directory' : 'other'
}

/** For `catch`: undefined for a path that leads nowhere; any other error goes on. */
function absent(error: unknown): undefined {
  const code: unknown = error instanceof Error && 'code' in error ? error.code : undefined
  if (code === 'ENOENT' || code === 'ENOTDIR') return undefined
  throw error
}

function isInside(dir: string, path: string): boolean {
  return path.startsWith(dir.endsWith(sep) ? dir : dir + sep)
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Name and message of what was thrown. */
function messageOf(error: unknown): string {
  return error instanceof Error ? `${error.name}: ${error.message}` : String(error)
}

/** What went wrong, at which line of the plugin's, and what to do about it. */
async function describeImportError(error: unknown, dir: string, entry: string): Promise<string> {
  const message = error === undefined ? 'its module throws undefined' : messageOf(error)
  const place = placeOf(error, dir)
  const [said = '', ...more] = message.split('\n')
  // What Node says beyond that, to rename the file, makes no plugin of it.
  if (more.length > 0 && said.includes('in ES module scope')) {
    const advice = 'a plugin is an ES module, with import and `export default definePlugin({ ... })`'
    return `${said} (${place ?? entry}); ${advice}`
  }
  if (place !== undefined) return `${message} (${place})`
  if (error instanceof SyntaxError) {
    const found = await findSyntaxError(entry, dir)
    if (found === undefined) return message
    const advice = found.text.startsWith('@')
      ? '; decorators have to be compiled: in tsconfig.json "target": "es2022" does that'
      : ''
    return `${message} (${found.place}: ${found.text})${advice}`
  }
  return `${message}${adviceForCode(error)}`
}

/** What to do about a module that is not found. */
function adviceForCode(error: unknown): string {
  const code: unknown = error instanceof Error && 'code' in error ? error.code : undefined
  const message = error instanceof Error ? error.message : ''
  if (code === 'ERR_UNSUPPORTED_DIR_IMPORT')
    return '; an ES module names the file: a folder has no index of its own'
  if (code !== 'ERR_MODULE_NOT_FOUND') return ''
  if (message.startsWith('Cannot find package'))
    return '; is the name right, and has `npm install` been run in the folder?'
  return /Cannot find module '[^']*\.[cm]?js'/.test(message)
    ? '; is the name right, and has it been built?'
    : '; an ES module names the whole file, as in "./model.js"'
}
