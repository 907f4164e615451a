/**
 * Finds Helm for the tests of the chart, or builds it.
 *
 * Order: `HELM_BIN`; `helm` on PATH; a pinned version that Go builds into the cache folder.
 *
 * As a program it prints the path: `node scripts/helm.mjs`.
 */
import { realpath } from 'node:fs/promises'
import { delimiter, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { goTool, isExecutable } from './go-tool.mjs'

const version = 'v3.22.0'
const advice = 'Set HELM_BIN to a helm binary (version 3), put `helm` on PATH, or install Go 1.26 or newer.'

/**
 * The path of a helm binary.
 * @returns {Promise<string>}
 * @throws {Error} saying what to set, when there is none and none can be built
 */
export async function findHelm() {
  const named = process.env.HELM_BIN
  if (named) {
    if (await isExecutable(named)) return resolve(named)
    throw new Error(`HELM_BIN is ${named}, which is not an executable file. ${advice}`)
  }
  for (const folder of (process.env.PATH ?? '').split(delimiter)) {
    if (folder && (await isExecutable(join(folder, 'helm')))) return join(folder, 'helm')
  }
  try {
    return await goTool({ name: `helm-${version}`, package: `helm.sh/helm/v3/cmd/helm@${version}` })
  } catch (error) {
    throw new Error(`No helm found, and building it failed: ${error.message}\n${advice}`, { cause: error })
  }
}

if (process.argv[1] && (await realpath(process.argv[1]).catch(() => '')) === fileURLToPath(import.meta.url)) {
  try {
    console.log(await findHelm())
  } catch (error) {
    console.error(error.message)
    process.exitCode = 1
  }
}
