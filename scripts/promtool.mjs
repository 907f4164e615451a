/**
 * Finds promtool for the tests, which evaluates rules and queries as Prometheus does, or fetches it.
 *
 * Order: `PROMTOOL_BIN`; `promtool` on PATH; Debian's package `prometheus`, unpacked into the cache folder (`.cache` at the
 * repository root, or `SETPOINT_CACHE_DIR`).
 *
 * As a program it prints the path: `node scripts/promtool.mjs`.
 */
import { realpath } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { installedBinary } from './binaries.mjs'
import { debianProgram } from './debian.mjs'

/**
 * @returns {Promise<string>}
 * @throws {Error} saying what to set, if promtool can neither be found nor fetched
 */
export async function findPromtool() {
  const advice = 'Set PROMTOOL_BIN to a promtool binary, or put `promtool` on PATH.'
  const installed = await installedBinary('PROMTOOL_BIN', 'promtool', advice)
  return (
    installed ?? debianProgram({ package: 'prometheus', program: 'promtool', folder: 'prometheus' }, advice)
  )
}

if (process.argv[1] && (await realpath(process.argv[1]).catch(() => '')) === fileURLToPath(import.meta.url)) {
  try {
    console.log(await findPromtool())
  } catch (error) {
    console.error(error.message)
    process.exitCode = 1
  }
}
