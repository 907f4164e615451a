/**
 * Finds an etcd server binary for tests and benchmarks, or fetches one.
 *
 * Order: `ETCD_BIN`; `etcd` on PATH; Debian's package `etcd-server`, downloaded with apt and unpacked into a cache
 * folder (`.cache/etcd` at the repository root, or `etcd` in `SETPOINT_CACHE_DIR`). The download needs neither root
 * nor existing package lists: it uses the machine's sources with its own lists, cache and locks.
 *
 * `findNewerEtcd` finds etcd 3.5 in the same way: `ETCD_NEWER_BIN`, then the package of Debian 13, whose binary also
 * runs on Debian 12. `findEtcdutl` finds the program `etcdutl` next to it.
 *
 * As a program it prints the path: `node scripts/etcd.mjs`, or `node scripts/etcd.mjs --newer`.
 */
import { execFile } from 'node:child_process'
import { mkdir, readdir, readFile, realpath, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { cacheFolder, fillOnce, installedBinary, isExecutable, reasonOf } from './binaries.mjs'

const run = promisify(execFile)

/**
 * Returns the path of an etcd server binary.
 * @returns {Promise<string>}
 * @throws {Error} saying what to set, if etcd can neither be found nor fetched
 */
export async function findEtcd() {
  const advice = 'Set ETCD_BIN to an etcd server binary (3.4 or newer), or put `etcd` on PATH.'
  return (await installedBinary('ETCD_BIN', 'etcd', advice)) ?? cachedEtcd('etcd', advice)
}

/**
 * Returns the path of a binary of etcd 3.5, the version that the chart installs.
 * @returns {Promise<string>}
 * @throws {Error} saying what to set, if etcd 3.5 can neither be found nor fetched
 */
export async function findNewerEtcd() {
  const advice = 'Set ETCD_NEWER_BIN to an etcd server binary (3.5 or newer).'
  const named = process.env.ETCD_NEWER_BIN
  if (!named) return cachedEtcd('etcd-newer', advice, 'trixie')
  if (await isExecutable(named)) return resolve(named)
  throw new Error(`ETCD_NEWER_BIN is ${named}, which is not an executable file. ${advice}`)
}

/**
 * Returns the path of `etcdutl`, which restores snapshots.
 * @returns {Promise<string>}
 * @throws {Error} saying what to set, if there is none
 */
export async function findEtcdutl() {
  const etcd = await findNewerEtcd()
  const path = join(dirname(await realpath(etcd)), 'etcdutl')
  if (await isExecutable(path)) return path
  throw new Error(`No etcdutl found next to ${etcd}. Set ETCD_NEWER_BIN to the etcd of a whole release.`)
}

/**
 * @param {string} folder in the cache folder
 * @param {string} advice ends the error message
 * @param {string} [release] of Debian; by default the machine's
 */
async function cachedEtcd(folder, advice, release) {
  const home = join(cacheFolder(), folder)
  const binary = join(home, 'usr', 'bin', 'etcd')
  if (await isExecutable(binary)) return binary
  try {
    await fillOnce(home, work => fetchDebianPackage(work, release))
  } catch (error) {
    throw new Error(
      `No etcd found, and fetching Debian's etcd-server failed: ${reasonOf(error)}\n${advice}`,
      { cause: error },
    )
  }
  if (await isExecutable(binary)) return binary
  throw new Error(`Debian's etcd-server was unpacked to ${home}, but holds no usr/bin/etcd. ${advice}`)
}

async function fetchDebianPackage(work, release) {
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
    ...(release === undefined ? [] : await sourcesOf(release, work)),
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

/**
 * Returns options of apt for one release of Debian, from the mirror that the machine uses.
 * @throws {Error} if the machine has no source of Debian
 */
async function sourcesOf(release, work) {
  const folder = '/etc/apt/sources.list.d'
  const lists = (await readdir(folder).catch(() => [])).map(name => join(folder, name))
  const texts = await Promise.all(
    ['/etc/apt/sources.list', ...lists].map(path => readFile(path, 'utf8').catch(() => '')),
  )
  const uris = texts.join('\n').match(/^(?:deb\s+(?:\[[^\]]*\]\s+)?|URIs:\s*)(\S+)/gm) ?? []
  const mirror = uris.map(line => line.split(/\s+/).at(-1)).find(uri => /\/debian\/?$/.test(uri))
  if (mirror === undefined) throw new Error('apt has no source of Debian')
  const path = join(work, 'sources.list')
  await writeFile(path, `deb ${mirror} ${release} main\n`)
  return [`Dir::Etc::sourcelist=${path}`, 'Dir::Etc::sourceparts=-']
}

if (process.argv[1] && (await realpath(process.argv[1]).catch(() => '')) === fileURLToPath(import.meta.url)) {
  try {
    console.log(await (process.argv.includes('--newer') ? findNewerEtcd() : findEtcd()))
  } catch (error) {
    console.error(error.message)
    process.exitCode = 1
  }
}
