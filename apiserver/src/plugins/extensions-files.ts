import type { Dirent } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import { extname, join, relative } from 'node:path'
import { errorMessage } from '@setpoint/controller-runtime/api'
import { decodeDocuments } from '../model/index.ts'

/** A document that was not applied, or has unknown fields. */
export interface ExtensionProblem {
  /** Path below the plugin's folder, separated by `/`. */
  readonly file: string
  /** The line where the document starts, from 1. */
  readonly line: number
  readonly message: string
  /** True if a later attempt may succeed without a change of the plugin's files. */
  readonly transient: boolean
}

/** One YAML document of any shape. */
export interface ExtensionDocument {
  readonly file: string
  readonly line: number
  readonly value: unknown
}

/**
 * Reads every YAML document of every `.yaml` and `.yml` file below `<resourcesDir>/extensions/`, by path and then in
 * the order of the file. Skips names that start with a dot: editors and mounted ConfigMaps keep copies under such
 * names. Returns no documents if the folder does not exist. Paths are relative to `dir`, the plugin's folder.
 */
export async function readExtensions(
  resourcesDir: string,
  dir: string,
): Promise<{ documents: ExtensionDocument[]; problems: ExtensionProblem[] }> {
  const documents: ExtensionDocument[] = []
  const problems: ExtensionProblem[] = []
  const shown = (path: string) => relative(dir, join(resourcesDir, path)).replaceAll('\\', '/')
  const report = (file: string, line: number, error: unknown): void => {
    problems.push({ file: shown(file), line, message: errorMessage(error), transient: false })
  }

  const readFolder = async (folder: string): Promise<void> => {
    const entries = await readdir(join(resourcesDir, folder), { withFileTypes: true })
    entries.sort((a, b) => (a.name < b.name ? -1 : 1))
    for (const entry of entries) {
      if (entry.name.startsWith('.')) continue
      const path = `${folder}/${entry.name}`
      try {
        if (entry.isDirectory()) await readFolder(path)
        else if (isYaml(entry.name) && (await isFile(resourcesDir, path, entry))) await readDocuments(path)
      } catch (error) {
        report(path, 1, error)
      }
    }
  }

  const readDocuments = async (file: string): Promise<void> => {
    for (const { line, value, error } of decodeDocuments(
      decodeUtf8(await readFile(join(resourcesDir, file))),
    )) {
      if (error === undefined) documents.push({ file: shown(file), line, value })
      else report(file, line, error)
    }
  }

  try {
    await readFolder('extensions')
  } catch (error) {
    const missing = error instanceof Error && 'code' in error && error.code === 'ENOENT'
    if (!missing) report('extensions', 1, error)
  }
  return { documents, problems }
}

function isYaml(name: string): boolean {
  const extension = extname(name).toLowerCase()
  return extension === '.yaml' || extension === '.yml'
}

/** Follows links to files, but not links to folders, which may form cycles. */
async function isFile(resourcesDir: string, path: string, entry: Dirent): Promise<boolean> {
  return entry.isFile() || (entry.isSymbolicLink() && (await stat(join(resourcesDir, path))).isFile())
}

function decodeUtf8(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (error) {
    throw new Error('is not valid UTF-8', { cause: error })
  }
}
