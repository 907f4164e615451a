import { realpathSync } from 'node:fs'
import { basename, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { packageFolder } from '../package-folder.ts'
import { namesModule, placesOf } from './error-place.ts'

/** Names of the plugins by folder. Node never unloads a module, so an entry stays true for the life of the process. */
const imported = new Map<string, string>()

/** Records that this process runs the code of a folder: before its module is imported, and when its name is known. */
export function rememberPlugin(dir: string, name: string = basename(dir)): void {
  imported.set(dir, name)
}

/** Returns the name of the plugin whose folder is on the stack of an error or of one of its causes, or undefined. */
export function pluginAtFault(error: unknown): string | undefined {
  const seen = new Set<unknown>()
  for (let at = error; at instanceof Error && !seen.has(at); at = at.cause) {
    seen.add(at)
    for (const [dir, name] of imported) if (isOnStack(at, dir)) return name
  }
  return undefined
}

/**
 * Returns true for a fault that must be of a plugin although nothing leads to its code. Such a fault is a value that is
 * not an error, or the failure of a file, a socket or a process without a listener, whose stack has frames of Node
 * only. The server throws errors only, and its own files and sockets have listeners.
 */
export function isFaultOfSomePlugin(error: unknown): boolean {
  return imported.size > 0 && !namesModule(error)
}

function isOnStack(error: Error, dir: string): boolean {
  try {
    const places = placesOf(error, dir)
    // The server can be installed in the plugin's own folder; its packages are then not the plugin's.
    const hasServer = !relative(realpathSync(dir), serverFolder).startsWith('..')
    return places.some(place => !hasServer || !place.includes('node_modules'))
  } catch {
    // The folder is gone.
    return false
  }
}

const serverFolder = fileURLToPath(packageFolder)
