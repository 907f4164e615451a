import { isAbsolute } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isRecord } from '../api/is-record.ts'
import { type KeysOf, unknownKeys } from '../api/known-keys.ts'
import type { Model } from '../api/model.ts'

/** Options of `PluginContext.pages`. */
export interface PagesOptions {
  /** The folder of the files, absolute: `new URL('../pages/', import.meta.url)`. */
  readonly folder: URL | string
  /**
   * The page for every path below that is no file, so that the page itself reads the path. By default such paths
   * respond with 404. Paths of a folder that exists, such as `assets/`, always do.
   */
  readonly fallback?: string
}

/** Static files of a plugin. */
export interface PluginPages {
  /** The path below the server's base path, for example `/console`. */
  readonly path: string
  /** Absolute path of the folder. */
  readonly folder: string
  /** A file of the folder. */
  readonly fallback: string | undefined
}

/** What a plugin adds to the console for one of its kinds. */
export interface ConsoleModule {
  readonly model: Model
  /** The path of a JavaScript module among the plugin's pages, below the server's base path. */
  readonly module: string
}

const optionKeys: KeysOf<PagesOptions> = { folder: true, fallback: true }

/** Of one segment: nothing that a client or a proxy could read in two ways. */
const pathPattern = /^(\/[a-z0-9]([-a-z0-9]*[a-z0-9])?)+$/

/** @throws TypeError that names what is wrong */
export function readPages(path: unknown, options: unknown): PluginPages {
  if (typeof path !== 'string' || !pathPattern.test(path))
    throw new TypeError(
      `pages: the path ${JSON.stringify(path)} must be like /reports: segments of lowercase letters, digits and '-'`,
    )
  if (!isRecord(options)) throw new TypeError(`pages at ${path} need { folder }`)
  const problems = unknownKeys(options, optionKeys, `pages at ${path}`)
  if (problems.length > 0) throw new TypeError(problems.join('; '))
  const { folder, fallback } = options
  if (fallback !== undefined && (typeof fallback !== 'string' || fallback === ''))
    throw new TypeError(`pages at ${path}: fallback must be the name of a file in the folder`)
  return { path, folder: readFolder(path, folder), fallback }
}

function readFolder(path: string, folder: unknown): string {
  if (folder instanceof URL && folder.protocol === 'file:') return fileURLToPath(folder)
  if (typeof folder === 'string' && isAbsolute(folder)) return folder
  throw new TypeError(
    `pages at ${path}: folder must be absolute, such as new URL('../pages/', import.meta.url), because modules have no working directory`,
  )
}
