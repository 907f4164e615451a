import { dirname, join, resolve } from 'node:path'
import type { PluginSource } from '../plugins/index.ts'
import type { ReadFile } from './flags-files.ts'
import { quote, readDirectory, reasonOf, UsageError } from './flags-values.ts'

/**
 * Returns the source of a plugin: a folder that has a package.json, an archive (`.tgz`), or a package that is installed
 * in the working directory or above it. A folder comes before a package of the same name. The rest of the package is
 * checked before the server starts, its code when it is loaded.
 */
export function readPluginSource(text: string, readFile: ReadFile): PluginSource {
  const path = readDirectory(text)
  const manifest = join(path, 'package.json')
  if (/\.(tgz|tar\.gz)$/.test(path)) return { kind: 'archive', path, label: path }
  try {
    readFile(manifest)
    return { kind: 'folder', path, label: path }
  } catch (error) {
    const installed = isPackageName(text) ? findInstalled(text, readFile) : undefined
    if (installed !== undefined) return { kind: 'package', path: installed, label: `npm:${text}` }
    const remedy = isPackageName(text)
      ? `, and no package of that name is installed in ${quote(resolve())}`
      : '; a folder with a package.json, a .tgz of `npm pack` or the name of an installed package is accepted'
    const isMissing = error instanceof Error && 'code' in error && error.code === 'ENOENT'
    const reason = isMissing ? `there is no file ${quote(manifest)}` : reasonOf(error)
    throw new UsageError(`${quote(text)} holds no plugin: ${reason}${remedy}`, { cause: error })
  }
}

function isPackageName(text: string): boolean {
  return text.length <= 214 && /^(@[a-z0-9~-][a-z0-9._~-]*\/)?[a-z0-9~-][a-z0-9._~-]*$/.test(text)
}

/** Returns the folder of a package, looked up as Node does for a module of the working directory. */
function findInstalled(name: string, readFile: ReadFile): string | undefined {
  for (let dir = resolve(); ; dir = dirname(dir)) {
    const found = join(dir, 'node_modules', name)
    try {
      readFile(join(found, 'package.json'))
      return found
    } catch {
      if (dirname(dir) === dir) return undefined
    }
  }
}
