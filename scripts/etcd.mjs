/**
 * Finds an etcd server binary for tests and benchmarks, or fetches one.
 *
 * Order: `ETCD_BIN`; `etcd` on PATH; Debian's package `etcd-server`, downloaded and unpacked into a cache
 * folder (`.cache/etcd` at the repository root, or `etcd` in `SETPOINT_CACHE_DIR`), which needs no root.
 *
 * `findNewerEtcd` finds etcd 3.5 in the same way: `ETCD_NEWER_BIN`, then the package of Debian 13, whose binary also
 * runs on Debian 12. `findEtcdutl` finds the program `etcdutl` next to it. `findEtcdctl` finds `etcdctl` 3.5: `ETCDCTL_BIN`, the PATH,
 * then Debian 13's package `etcd-client`.
 *
 * As a program it prints the path: `node scripts/etcd.mjs`, or `node scripts/etcd.mjs --newer`.
 */
import { realpath } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { installedBinary, isExecutable } from './binaries.mjs'
import { debianProgram } from './debian.mjs'

const server = Object.freeze({ package: 'etcd-server', program: 'etcd' })

/**
 * Returns the path of an etcd server binary.
 * @returns {Promise<string>}
 * @throws {Error} saying what to set, if etcd can neither be found nor fetched
 */
export async function findEtcd() {
  const advice = 'Set ETCD_BIN to an etcd server binary (3.4 or newer), or put `etcd` on PATH.'
  const installed = await installedBinary('ETCD_BIN', 'etcd', advice)
  return installed ?? debianProgram({ ...server, folder: 'etcd' }, advice)
}

/**
 * Returns the path of a binary of etcd 3.5, the version that the chart installs.
 * @returns {Promise<string>}
 * @throws {Error} saying what to set, if etcd 3.5 can neither be found nor fetched
 */
export async function findNewerEtcd() {
  const advice = 'Set ETCD_NEWER_BIN to an etcd server binary (3.5 or newer).'
  const named = process.env.ETCD_NEWER_BIN
  if (!named) return debianProgram({ ...server, folder: 'etcd-newer', release: 'trixie' }, advice)
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
 * Returns the path of `etcdctl`.
 * @returns {Promise<string>}
 * @throws {Error} saying what to set, if there is none
 */
export async function findEtcdctl() {
  const advice = 'Set ETCDCTL_BIN to an etcdctl binary (3.5 or newer), or put `etcdctl` on PATH.'
  const client = { package: 'etcd-client', program: 'etcdctl', folder: 'etcd-client', release: 'trixie' }
  return (await installedBinary('ETCDCTL_BIN', 'etcdctl', advice)) ?? debianProgram(client, advice)
}

if (process.argv[1] && (await realpath(process.argv[1]).catch(() => '')) === fileURLToPath(import.meta.url)) {
  try {
    console.log(await (process.argv.includes('--newer') ? findNewerEtcd() : findEtcd()))
  } catch (error) {
    console.error(error.message)
    process.exitCode = 1
  }
}
