import { readdir, readFile, stat } from 'node:fs/promises'
import { basename, extname, join, relative, resolve, sep } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { isPlugin, type Plugin } from '@setpoint/controller-runtime'
import { isRecord } from '@setpoint/controller-runtime/api'
import validVersion from 'semver/functions/valid.js'
import { loadRules } from '../model/index.ts'
import { packageFolder } from '../package-folder.ts'
import { findSyntaxError, placeOf } from './error-place.ts'
import { rememberPlugin } from './fault-owner.ts'
import { installModuleHooks, sharesSdk, urlOfGeneration } from './module-hooks.ts'

/** A plugin with the facts of its folder. */
export interface LoadedPlugin {
  /** Absolute path of its folder. */
  readonly dir: string
  /** `name` of its package.json, or the folder's name by default. */
  readonly packageName: string
  /** `version` of its package.json, or 0.0.0 if that is not a semantic version. */
  readonly packageVersion: string
  readonly plugin: Plugin
  /** Absolute path of its resources folder, if it has one. */
  readonly resourcesDir: string | undefined
}

/** A folder cannot be loaded as a plugin. The message names the folder, the file and the remedy. */
export class PluginLoadError extends Error {
  override readonly name = 'PluginLoadError'
  readonly dir: string
  /** The message without the folder. */
  readonly problem: string

  constructor(dir: string, problem: string, options?: ErrorOptions) {
    super(`plugin ${dir}: ${problem}`, options)
    this.dir = dir
    this.problem = problem
  }
}

export const loadDefaults = Object.freeze({
  /**
   * Milliseconds for the import of a plugin's module with its top-level awaits. Code alone takes well below a second.
   */
  importTimeoutMs: 30_000,
})

/** The `plugins/` folder next to this server's package, in the repository and in an installation of it. */
const installedPlugins = fileURLToPath(new URL('../plugins/', packageFolder))

/** Returns every folder of the installation's `plugins/` that has a package.json, as absolute paths, by name. */
export async function discoverPlugins(installation: string = installedPlugins): Promise<string[]> {
  const names = await readdir(installation).catch(absent)
  const found: string[] = []
  for (const name of (names ?? []).sort()) {
    const dir = join(installation, name)
    if (!name.startsWith('.') && (await kindOf(join(dir, 'package.json'))) === 'file') found.push(dir)
  }
  return found
}

export interface LoadOptions {
  readonly importTimeoutMs?: number
  /**
   * Node imports a module once per process and never unloads it. Each further generation of a folder imports its modules
   * once more. Default 0, the first.
   */
  readonly generation?: number
}

/**
 * Loads the plugin of a folder: imports the module named in its package.json, whose default export must be the result of
 * `definePlugin`. The plugin shares the server's copy of the SDK.
 *
 * Loading the same generation of a folder again returns the same plugin or the same error.
 * @throws PluginLoadError for any fault of the folder; `cause` is the original error with its stack
 */
export async function loadPlugin(dir: string, options: LoadOptions = {}): Promise<LoadedPlugin> {
  const folder = resolve(dir)
  const { importTimeoutMs = loadDefaults.importTimeoutMs, generation = 0 } = options
  try {
    return await load(folder, importTimeoutMs, generation)
  } catch (error) {
    if (error instanceof PluginLoadError) throw error
    // For example a file without read permission.
    throw new PluginLoadError(folder, messageOf(error), { cause: error })
  }
}

async function load(folder: string, importTimeoutMs: number, generation: number): Promise<LoadedPlugin> {
  const manifest = await readManifest(folder)
  const entry = await findEntry(folder, manifest)
  const resourcesDir = await findResources(folder, manifest)
  rememberPlugin(folder)
  const url = urlOfGeneration(pathToFileURL(entry).href, generation)
  if (generation > 0 || !sharesSdk(folder, entry)) installModuleHooks()
  const plugin = pluginOf(folder, entry, await importEntry(folder, entry, url, importTimeoutMs))
  rememberPlugin(folder, plugin.name)
  // Kinds are registered synchronously, and then their rules must compile.
  await loadRules(plugin.models)
  const { name, version } = manifest
  return {
    dir: folder,
    packageName: typeof name === 'string' && name !== '' ? name : basename(folder),
    packageVersion: typeof version === 'string' && validVersion(version) !== null ? version : '0.0.0',
    plugin,
    resourcesDir,
  }
}

/** The fields of package.json that are read here. Their types are not checked yet. */
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

/** Returns the absolute path of the module to import. */
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

/** Returns the entry of `exports` for the package itself, in any of the forms of `exports`. */
function mainExport(exports: unknown): unknown {
  const hasSubpaths = isRecord(exports) && Object.keys(exports).some(key => key.startsWith('.'))
  return hasSubpaths ? exports['.'] : exports
}

/** The conditions that hold for an import by this server, besides `default`. */
const conditions: ReadonlySet<string> = new Set(['node', 'import', 'module-sync', 'default'])

/** Resolves conditions and lists as Node does: the first that applies and leads to a path. */
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

async function importEntry(dir: string, entry: string, url: string, timeoutMs: number): Promise<object> {
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
    const imported: Promise<object> = import(url)
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

/** Returns the type of the file at a path, or undefined if there is no file. */
async function kindOf(path: string): Promise<'file' | 'directory' | 'other' | undefined> {
  const found = await stat(path).catch(absent)
  if (found === undefined) return undefined
  return found.isFile() ? 'file' : found.isDirectory() ? 'directory' : 'other'
}

/** For `catch`: returns undefined for a missing path and rethrows other errors. */
function absent(error: unknown): undefined {
  const code: unknown = error instanceof Error && 'code' in error ? error.code : undefined
  if (code === 'ENOENT' || code === 'ENOTDIR') return undefined
  throw error
}

function isInside(dir: string, path: string): boolean {
  return path.startsWith(dir.endsWith(sep) ? dir : dir + sep)
}

/** Returns the name and message of an error. */
function messageOf(error: unknown): string {
  return error instanceof Error ? `${error.name}: ${error.message}` : String(error)
}

/** Describes an import error with its place in the plugin and the remedy. */
async function describeImportError(error: unknown, dir: string, entry: string): Promise<string> {
  const message = error === undefined ? 'its module throws undefined' : messageOf(error)
  const place = placeOf(error, dir)
  const [said = '', ...more] = message.split('\n')
  // Drop Node's advice to rename the file: it would not make a plugin.
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

/** Returns the advice for a module that is not found. */
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
