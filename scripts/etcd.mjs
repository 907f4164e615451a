/**
 * Finds an etcd server binary for tests and benchmarks, or fetches one.
 *
 * Order: `ETCD_BIN`; `etcd` on PATH; Debian's package `etcd-server`, downloaded with apt and unpacked into a cache
 * folder (`.cache/etcd` at the repository root, or `etcd` in `SETPOINT_CACHE_DIR`). The download needs neither root
 * nor package lists: it keeps lists, cache and locks of its own and uses the sources that the machine has configured.
 *
 * As a program it prints the path: `node scripts/etcd.mjs`.
 */
import { execFile } from 'node:child_process'
import { constants } from 'node:fs'
import { access, mkdir, mkdtemp, readdir, realpath, rename, rm } from 'node:fs/promises'
import { delimiter, dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)
const root = dirname(dirname(fileURLToPath(import.meta.url)))
const advice = 'Set ETCD_BIN to an etcd server binary (3.4 or newer), or put `etcd` on PATH.'

/**
 * The path of an etcd server binary.
 * @returns {Promise<string>}
 * @throws {Error} saying what to set, when there is none and none can be fetched
 */
export async function findEtcd() {
  const named = process.env.ETCD_BIN
  if (named) {
    if (await isExecutable(named)) return resolve(named)
    throw new Error(`ETCD_BIN is ${named}, which is not an executable file. ${advice}`)
  }
  for (const folder of (process.env.PATH ?? '').split(delimiter)) {
    if (folder && (await isExecutable(join(folder, 'etcd')))) return join(folder, 'etcd')
  }
  const cache = resolve(process.env.SETPOINT_CACHE_DIR ?? join(root, '.cache'))
  const home = join(cache, 'etcd')
  const binary = join(home, 'usr', 'bin', 'etcd')
  if (await isExecutable(binary)) return binary
  try {
    await fetchDebianPackage(cache, home)
  } catch (error) {
    throw new Error(
      `No etcd found, and fetching Debian's etcd-server failed: ${reasonOf(error)}\n${advice}`,
      {
        cause: error,
      },
    )
  }
  if (await isExecutable(binary)) return binary
  throw new Error(`Debian's etcd-server was unpacked to ${home}, but holds no usr/bin/etcd. ${advice}`)
}

/** Unpacks into a folder of its own and renames it, so that two callers at once cannot see half of it. */
async function fetchDebianPackage(cache, home) {
  await mkdir(cache, { recursive: true })
  const work = await mkdtemp(join(cache, 'etcd-fetch-'))
  try {
    for (const folder of ['lists/partial', 'archives/partial', 'unpacked']) {
      await mkdir(join(work, folder), { recursive: true })
    }
    const options = [
      `Dir::State::lists=${join(work, 'lists')}`,
      `Dir::Cache=${work}`,
      `Dir::Cache::archives=${join(work, 'archives')}`,
      // As root apt changes to a user that may not write into our folder.
      'APT::Sandbox::User=',
      'Acquire::Languages=none',
    ].flatMap(option => ['-o', option])
    // One unreachable source among several makes the update fail although the package is to be had.
    const updated = await run('apt-get', [...options, 'update'], { cwd: work }).catch(error => error)
    try {
      await run('apt-get', [...options, 'download', 'etcd-server'], { cwd: work })
    } catch (error) {
      throw updated instanceof Error
        ? new Error(`${reasonOf(updated)}\n${reasonOf(error)}`, { cause: error })
        : error
    }
    const archive = (await readdir(work)).find(
      name => name.startsWith('etcd-server_') && name.endsWith('.deb'),
    )
    if (!archive) throw new Error('apt-get downloaded nothing')
    await run('dpkg', ['-x', join(work, archive), join(work, 'unpacked')])
    await rename(join(work, 'unpacked'), home).catch(error => {
      // Another process was faster; what it unpacked is as good.
      if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error
    })
  } finally {
    await rm(work, { recursive: true, force: true })
  }
}

function isExecutable(path) {
  return access(path, constants.X_OK).then(
    () => true,
    () => false,
  )
}

function reasonOf(error) {
  if (error.code === 'ENOENT' && error.syscall?.startsWith('spawn')) return `${error.path} is not installed`
  return (error.stderr || error.message).trim()
}

if (process.argv[1] && (await realpath(process.argv[1]).catch(() => '')) === fileURLToPath(import.meta.url)) {
  try {
    console.log(await findEtcd())
  } catch (error) {
    console.error(error.message)
    process.exitCode = 1
  }
}
