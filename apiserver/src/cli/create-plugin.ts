import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { packageFolder } from '../package-folder.ts'
import { programVersion } from '../program-version.ts'
import type { NewPlugin } from './create-command.ts'
import { quote, UsageError } from './flags-values.ts'

/**
 * The files of new plugins: `common` for all, and a folder per language. `plugin-name` and `setpoint-version` stand for
 * the plugin's name and the version of the program.
 */
const templates = fileURLToPath(new URL('templates/', packageFolder))

/**
 * Writes the files of a new plugin. Returns what to do next, as text.
 *
 * @throws UsageError if the folder exists and is not empty; errors of the file system
 */
export async function createPlugin({ name, language, dir }: NewPlugin): Promise<string> {
  const files = [...(await templateFiles('common')), ...(await templateFiles(language))]
  await refuseOccupied(dir)
  for (const { path, text } of files) {
    const file = join(dir, path)
    await mkdir(dirname(file), { recursive: true })
    const content = text.replaceAll('plugin-name', name).replaceAll('setpoint-version', programVersion())
    await writeFile(file, content, { flag: 'wx' })
  }
  return `Created the plugin ${name}. Next:

  cd ${shellQuoted(dir)}
  ${['npm install', ...linkedPackages().map(shellQuoted)].join(' ')}
  npm test
  npm run dev

README.md explains the files.
`
}

function shellQuoted(path: string): string {
  return /^[\w./-]+$/.test(path) ? path : quote(path)
}

/** Returns the folders of both packages if this program runs in a clone: a registry may not have them. */
function linkedPackages(): string[] {
  const folders = [packageFolder, new URL('../controller-runtime/', packageFolder)]
  return packageFolder.pathname.includes('/node_modules/') ? [] : folders.map(folder => fileURLToPath(folder))
}

/** @throws UsageError if there is a file, or a folder with content */
async function refuseOccupied(dir: string): Promise<void> {
  const content = await readdir(dir).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return []
    if (error.code === 'ENOTDIR')
      throw new UsageError(`${quote(dir)} is not a folder; choose another with --dir`)
    throw error
  })
  if (content.length > 0)
    throw new UsageError(`the folder ${quote(dir)} is not empty; choose another with --dir`)
}

/** A file of a template, with its path in the plugin's folder. */
interface TemplateFile {
  readonly path: string
  readonly text: string
}

async function templateFiles(template: string): Promise<TemplateFile[]> {
  const root = join(templates, template)
  const entries = await readdir(root, { recursive: true, withFileTypes: true })
  return Promise.all(
    entries
      .filter(entry => entry.isFile())
      .map(async entry => {
        const path = join(relative(root, entry.parentPath), entry.name)
        const text = await readFile(join(root, path), 'utf8')
        // npm leaves files with the name .gitignore out of packages.
        return { path: path === 'gitignore' ? '.gitignore' : path, text }
      }),
  )
}
