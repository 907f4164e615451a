import { readFile, stat } from 'node:fs/promises'
import { basename, extname, join, resolve, sep } from 'node:path'
import { isRecord } from '@setpoint/controller-runtime/api'
import validVersion from 'semver/functions/valid.js'

/** The facts of a plugin's folder. */
export interface PluginPackage {
  /** Absolute path of the folder. */
  readonly dir: string
  /** `name` of its package.json, or the folder's name by default. */
  readonly packageName: string
  /** `version` of its package.json, or 0.0.0 if that is not a semantic version. */
  readonly packageVersion: string
  /** Absolute path of the module to import. */
  readonly entry: string
  /** Absolute path of its resources folder, if it has one. */
  readonly resourcesDir: string | undefined
  /** The versions of Node that `engines` of its package.json names. */
  readonly nodeRange: string | undefined
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

/**
 * Reads a folder as a plugin's package, without running its code.
 * @throws PluginLoadError if it is not one
 */
export async function readPackage(dir: string): Promise<PluginPackage> {
  const manifest = await readManifest(dir)
  const entry = await findEntry(dir, manifest)
  const resourcesDir = await findResources(dir, manifest)
  const { name, version, engines } = manifest
  const range = isRecord(engines) ? engines.node : undefined
  return {
    dir,
    packageName: typeof name === 'string' && name !== '' ? name : basename(dir),
    packageVersion: typeof version === 'string' && validVersion(version) !== null ? version : '0.0.0',
    entry,
    resourcesDir,
    nodeRange: typeof range === 'string' ? range : undefined,
  }
}

/** The fields of package.json that are read here. Their types are not checked yet. */
interface Manifest {
  readonly name?: unknown
  readonly version?: unknown
  readonly type?: unknown
  readonly main?: unknown
  readonly exports?: unknown
  readonly engines?: unknown
  readonly setpoint?: unknown
}

/** @throws PluginLoadError without a package.json that can be read */
export async function readManifest(dir: string): Promise<Manifest> {
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
    throw new PluginLoadError(dir, `package.json is not JSON: ${nameAndMessageOf(error)}`, { cause: error })
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

/** Returns the type of the file at a path, or undefined if there is no file. */
export async function kindOf(path: string): Promise<'file' | 'directory' | 'other' | undefined> {
  const found = await stat(path).catch(absent)
  if (found === undefined) return undefined
  return found.isFile() ? 'file' : found.isDirectory() ? 'directory' : 'other'
}

/** For `catch`: returns undefined for a missing path and rethrows other errors. */
export function absent(error: unknown): undefined {
  const code: unknown = error instanceof Error && 'code' in error ? error.code : undefined
  if (code === 'ENOENT' || code === 'ENOTDIR') return undefined
  throw error
}

function isInside(dir: string, path: string): boolean {
  return path.startsWith(dir.endsWith(sep) ? dir : dir + sep)
}

/** Returns the name and message of an error. */
export function nameAndMessageOf(error: unknown): string {
  return error instanceof Error ? `${error.name}: ${error.message}` : String(error)
}
