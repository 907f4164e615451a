/**
 * Finds an etcd server binary for tests and benchmarks, or fetches one.
 *
 * Order: `ETCD_BIN`; `etcd` on PATH; Debian's package `etcd-server`, downloaded with apt and unpacked into a cache
 * folder (`.cache/etcd` at the repository root, or `etcd` in `SETPOINT_CACHE_DIR`). The download needs neither root
 * nor existing package lists: it uses the machine's sources with its own lists, cache and locks.
 *
 * As a program it prints the path: `node scripts/etcd.mjs`.
 */
import { execFile } from 'node:child_process'
import { mkdir, readdir, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { cacheFolder, fillOnce, installedBinary, isExecutable, reasonOf } from './binaries.mjs'

const run = promisify(execFile)
const advice = 'Set ETCD_BIN to an etcd server binary (3.4 or newer), or put `etcd` on PATH.'

/**
 * Returns the path of an etcd server binary.
 * @returns {Promise<string>}
 * @throws {Error} saying what to set, if etcd can neither be found nor fetched
 */
export async function findEtcd() {
  const installed = await installedBinary('ETCD_BIN', 'etcd', advice)
  if (installed !== undefined) return installed
  const home = join(cacheFolder(), 'etcd')
  const binary = join(home, 'usr', 'bin', 'etcd')
  if (await isExecutable(binary)) return binary
  try {
    await fillOnce(home, fetchDebianPackage)
  } catch (error) {
    throw new Error(
      `No etcd found, and fetching Debian's etcd-server failed: ${reasonOf(error)}\n${advice}`,
      { cause: error },
    )
  }
  if (await isExecutable(binary)) return binary
  throw new Error(`Debian's etcd-server was unpacked to ${home}, but holds no usr/bin/etcd. ${advice}`)
}

async function fetchDebianPackage(work) {
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
  // The update fails if one of several sources is unreachable, but the package may come from another.
  const updated = await run('apt-get', [...options, 'update'], { cwd: work }).catch(error => error)
  try {
    await run('apt-get', [...options, 'download', 'etcd-server'], { cwd: work })
  } catch (error) {
    throw updated instanceof Error
      ? new Error(`${reasonOf(updated)}\n${reasonOf(error)}`, { cause: error })
      : error
  }
  const archive = (await readdir(work)).find(name => name.startsWith('etcd-server_') && name.endsWith('.deb'))
  if (!archive) throw new Error('apt-get downloaded nothing')
  await run('dpkg', ['-x', join(work, archive), join(work, 'unpacked')])
  return join(work, 'unpacked')
}

if (process.argv[1] && (await realpath(process.argv[1]).catch(() => '')) === fileURLToPath(import.meta.url)) {
  try {
    console.log(await findEtcd())
  } catch (error) {
    console.error(error.message)
    process.exitCode = 1
  }
}
