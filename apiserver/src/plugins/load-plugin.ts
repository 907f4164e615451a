import { readdir } from 'node:fs/promises'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { isPlugin, type Logger, type Plugin } from '@setpoint/controller-runtime'
import satisfies from 'semver/functions/satisfies.js'
import { loadRules } from '../model/index.ts'
import { packageFolder } from '../package-folder.ts'
import { findSyntaxError, placeOf } from './error-place.ts'
import { rememberPlugin } from './fault-owner.ts'
import { installModuleHooks, sharesSdk, urlOfGeneration } from './module-hooks.ts'
import {
  absent,
  kindOf,
  nameAndMessageOf,
  PluginLoadError,
  type PluginPackage,
  readPackage,
} from './plugin-package.ts'

/** A plugin with the facts of its folder. */
export interface LoadedPlugin extends Omit<PluginPackage, 'entry' | 'nodeRange'> {
  readonly plugin: Plugin
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

/** Returns the folder of the console: in the installation's `plugins/`, or that of an installed package. */
export async function consoleFolder(): Promise<string | undefined> {
  const folder = join(installedPlugins, 'console')
  if ((await kindOf(join(folder, 'package.json'))) === 'file') return folder
  try {
    return dirname(fileURLToPath(import.meta.resolve('@setpoint/plugin-console/package.json')))
  } catch {
    return undefined
  }
}

interface LoadOptions {
  readonly importTimeoutMs?: number
  /**
   * Node imports a module once per process and never unloads it. Each further generation of a folder imports its
   * modules once more. Default 0, the first.
   */
  readonly generation?: number
  /** Gets a warning if the package excludes the running version of Node. */
  readonly log?: Logger
}

/**
 * Loads the plugin of a folder: imports the module named in its package.json, whose default export must be the result
 * of `definePlugin`. The plugin shares the server's copy of the SDK.
 *
 * Loading the same generation of a folder again returns the same plugin or the same error.
 * @throws PluginLoadError for any fault of the folder; `cause` is the original error with its stack
 */
export async function loadPlugin(dir: string, options: LoadOptions = {}): Promise<LoadedPlugin> {
  const folder = resolve(dir)
  const { importTimeoutMs = loadDefaults.importTimeoutMs, generation = 0, log } = options
  try {
    const found = await readPackage(folder)
    warnOfNode(found, log)
    return await load(found, importTimeoutMs, generation)
  } catch (error) {
    if (error instanceof PluginLoadError) throw error
    // For example a file without read permission.
    throw new PluginLoadError(folder, nameAndMessageOf(error), { cause: error })
  }
}

/** Only warns, as npm does: the code may work all the same. */
function warnOfNode({ dir, packageName, nodeRange }: PluginPackage, log: Logger | undefined): void {
  const running = process.version
  if (nodeRange === undefined || satisfies(running, nodeRange, { includePrerelease: true })) return
  log?.warn(
    { source: dir },
    `the plugin ${packageName} asks for Node.js ${JSON.stringify(nodeRange)} ("engines" of its package.json), and ${running} is running`,
  )
}

async function load(
  { entry, nodeRange, ...facts }: PluginPackage,
  importTimeoutMs: number,
  generation: number,
): Promise<LoadedPlugin> {
  const { dir } = facts
  rememberPlugin(dir)
  const url = urlOfGeneration(pathToFileURL(entry).href, generation)
  if (generation > 0 || !sharesSdk(dir, entry)) installModuleHooks()
  const plugin = pluginOf(dir, entry, await importEntry(dir, entry, url, importTimeoutMs))
  rememberPlugin(dir, plugin.name)
  // Kinds are registered synchronously, and then their rules must compile.
  await loadRules(plugin.models)
  return { ...facts, plugin }
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

/** Describes an import error with its place in the plugin and the remedy. */
async function describeImportError(error: unknown, dir: string, entry: string): Promise<string> {
  const message = error === undefined ? 'its module throws undefined' : nameAndMessageOf(error)
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
