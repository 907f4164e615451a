/** Helpers for scripts that find or fetch a binary. */
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { constants } from 'node:fs'
import { access, mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { delimiter, dirname, join, resolve } from 'node:path'
import { setTimeout } from 'node:timers/promises'
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
 * Fills `home` through a temporary folder that is renamed, so that another process never sees half of it. Processes that want
 * the same folder at the same time wait for the first.
 * @param {string} home a folder inside the cache folder
 * @param {(work: string) => Promise<string>} fill returns the folder inside `work` that becomes `home`
 */
export async function fillOnce(home, fill) {
  await mkdir(dirname(home), { recursive: true })
  const unlock = await lock(`${home}.lock`)
  try {
    if (await isThere(home)) return
    const work = await mkdtemp(`${home}-fetch-`)
    try {
      await rename(await fill(work), home)
    } finally {
      await rm(work, { recursive: true, force: true })
    }
  } finally {
    await unlock()
  }
}

/** Resolves once this process holds the lock, with the function that releases it. A lock of a process that has ended is free. */
async function lock(path) {
  for (;;) {
    try {
      await writeFile(path, String(process.pid), { flag: 'wx' })
      return () => rm(path, { force: true })
    } catch (error) {
      if (error.code !== 'EEXIST') throw error
    }
    if (hasEnded(Number(await readFile(path, 'utf8').catch(() => '0')))) await rm(path, { force: true })
    else await setTimeout(200)
  }
}

/** @param {number} pid 0 if the file is not written yet */
function hasEnded(pid) {
  try {
    process.kill(pid, 0)
    return false
  } catch (error) {
    return error.code === 'ESRCH'
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
  return isThere(path, constants.X_OK)
}

function isThere(path, mode = constants.F_OK) {
  return access(path, mode).then(
    () => true,
    () => false,
  )
}

/** Returns the output of a failed child process, or that its program is missing. */
export function reasonOf(error) {
  if (error.code === 'ENOENT' && error.syscall?.startsWith('spawn')) return `${error.path} is not installed`
  return (error.stderr || error.message).trim()
}
