/** Helpers for scripts that find or fetch a binary. */
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { constants } from 'node:fs'
import { access, mkdir, mkdtemp, readdir, readFile, rename, rm } from 'node:fs/promises'
import { delimiter, dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

export const run = promisify(execFile)

const root = dirname(dirname(fileURLToPath(import.meta.url)))

/** The folder for downloads: `SETPOINT_CACHE_DIR`, or `.cache` at the repository root. */
export function cacheFolder() {
  return resolve(process.env.SETPOINT_CACHE_DIR ?? join(root, '.cache'))
}

/**
 * Returns the binary that `variable` names, else the one on PATH, else undefined.
 * @param {string} variable
 * @param {string} name
 * @param {string} advice ends the error message
 * @returns {Promise<string | undefined>}
 * @throws {Error} if the variable names a file that is not executable
 */
export async function installedBinary(variable, name, advice) {
  const named = process.env[variable]
  if (named) {
    if (await isExecutable(named)) return resolve(named)
    throw new Error(`${variable} is ${named}, which is not an executable file. ${advice}`)
  }
  for (const folder of (process.env.PATH ?? '').split(delimiter)) {
    if (folder && (await isExecutable(join(folder, name)))) return join(folder, name)
  }
  return undefined
}

/**
 * Fills `home` through a temporary folder that is renamed, so that another process never sees half of it.
 * @param {string} home a folder inside the cache folder
 * @param {(work: string) => Promise<string>} fill returns the folder inside `work` that becomes `home`
 */
export async function fillOnce(home, fill) {
  await mkdir(dirname(home), { recursive: true })
  const work = await mkdtemp(`${home}-fetch-`)
  try {
    const filled = await fill(work)
    await rename(filled, home).catch(error => {
      // Another process was faster, and its files are the same.
      if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error
    })
  } finally {
    await rm(work, { recursive: true, force: true })
  }
}

/**
 * Downloads an npm package, checks it, and unpacks a path of it into `work`.
 * @param {{ package: string, integrity: string }} source name with version, and the registry's SHA-512
 * @param {string} work an empty folder
 * @param {string} path begins with `package/`
 * @throws {Error}
 */
export async function fetchPackage(source, work, path) {
  await run('npm', ['pack', source.package, '--pack-destination', work], { cwd: work })
  const [archive] = await readdir(work)
  if (archive === undefined) throw new Error(`npm pack ${source.package} wrote nothing`)
  const digest = createHash('sha512')
    .update(await readFile(join(work, archive)))
    .digest('base64')
  if (`sha512-${digest}` !== source.integrity)
    throw new Error(`${source.package} has another checksum: ${digest}`)
  await run('tar', ['-xzf', archive, path], { cwd: work })
}

/** @param {string} path */
export function isExecutable(path) {
  return access(path, constants.X_OK).then(
    () => true,
    () => false,
  )
}

/** Returns the output of a failed child process, or that its program is missing. */
export function reasonOf(error) {
  if (error.code === 'ENOENT' && error.syscall?.startsWith('spawn')) return `${error.path} is not installed`
  return (error.stderr || error.message).trim()
}
