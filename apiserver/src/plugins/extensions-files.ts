import type { Dirent } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import { extname, join } from 'node:path'
import { decodeDocuments } from '../model/decode.ts'

/** A document that was not applied, and why. */
export interface ExtensionProblem {
  /** Path below the resources folder, with `/` between its parts. */
  readonly file: string
  /** The line of the file on which the document starts, from 1. */
  readonly line: number
  readonly message: string
  /** Whether applying again later may go better although nobody changes the plugin or the object. */
  readonly transient: boolean
}

/** One YAML document, of whatever shape. */
export interface ExtensionDocument {
  readonly file: string
  readonly line: number
  readonly value: unknown
}

/**
 * Every YAML document of every `.yaml` and `.yml` file of `<resourcesDir>/extensions/` and the folders below it, by
 * path and then in the order of the file. Names that begin with a dot are passed over: editors and Kubernetes'
 * mounted ConfigMaps keep second copies under such names. A folder that does not exist has no documents.
 */
export async function readExtensions(
  resourcesDir: string,
): Promise<{ documents: ExtensionDocument[]; problems: ExtensionProblem[] }> {
  const documents: ExtensionDocument[] = []
  const problems: ExtensionProblem[] = []
  const report = (file: string, line: number, error: unknown): void => {
    const message = error instanceof Error ? error.message : String(error)
    problems.push({ file, line, message, transient: false })
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
      if (error === undefined) documents.push({ file, line, value })
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

/** Links to files are followed; links to folders are not, since they may lead in circles. */
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
