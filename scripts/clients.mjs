/**
 * Builds or installs the programs of `test/clients`, which use Setpoint through clients in other languages.
 *
 * Each goes into the cache folder (`.cache` at the repository root, or `SETPOINT_CACHE_DIR`) at its first use, and again
 * when its sources change. Go 1.24, Python 3.10 with pip, or Rust 1.88 with Cargo must be on PATH.
 *
 * As a program it prints the path: `node scripts/clients.mjs go`, or another folder of `test/clients`.
 */
import { createHash } from 'node:crypto'
import { copyFile, cp, mkdir, readdir, readFile, realpath, rename, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { cacheFolder, fillOnce, isExecutable, reasonOf, run } from './binaries.mjs'

const programs = join(dirname(dirname(fileURLToPath(import.meta.url))), 'test', 'clients')

const pythonLauncher = `#!/bin/sh
home=$(dirname "$0")
PYTHONPATH="$home/packages" exec python3 "$home/clients.py"
`

/** @returns {Promise<string>} */
export function findGoClients() {
  return find('go', 'Go 1.24', buildGo)
}

/** @returns {Promise<string>} */
export function findKubernetesSpecs() {
  return find('e2e', 'Go 1.24', buildGo)
}

/** @returns {Promise<string>} */
export function findDefinitionChecker() {
  return find('definitions', 'Go 1.24', buildGo)
}

/** @returns {Promise<string>} */
export function findCertManager() {
  return find('cert-manager', 'Go 1.24', buildGo)
}

/** @returns {Promise<string>} */
export function findOperator() {
  return find('operator', 'Go 1.24', (sources, work) => buildGo(sources, work, ['build'], './cmd'))
}

/** @returns {Promise<string>} */
export function findGatewayTests() {
  const tests = 'sigs.k8s.io/gateway-api/pkg/test/cel'
  return find('gateway-api', 'Go 1.24', (sources, work) =>
    buildGo(sources, work, ['test', '-c', '-tags=experimental'], tests),
  )
}

/** @returns {Promise<string>} */
export async function findPythonClients() {
  // Some packages are compiled for one version of Python.
  const python = await run('python3', ['--version']).catch(() => undefined)
  return find('python', 'Python 3.10 with pip', installPython, python?.stdout)
}

/** @returns {Promise<string>} */
export function findRustClients() {
  return find('rust', 'Rust 1.88 with Cargo', async (sources, work) => {
    // Cargo writes its lock file beside the sources.
    const copy = join(work, 'sources')
    await cp(sources, copy, { recursive: true })
    await run('cargo', ['build', '--quiet'], { cwd: copy, maxBuffer: 64 * 1024 * 1024 })
    const built = join(work, 'built')
    await mkdir(built)
    await rename(join(copy, 'target', 'debug', 'setpoint-clients'), join(built, 'clients'))
    return built
  })
}

/**
 * @param {string} language the folder of the sources
 * @param {string} needs what must be installed
 * @param {(sources: string, work: string) => Promise<string>} build returns the folder in `work` that holds `clients`
 * @param {string} [version] of the tools, if the result depends on it
 */
async function find(language, needs, build, version = '') {
  const sources = join(programs, language)
  const home = join(cacheFolder(), `clients-${language}-${await digestOf(sources, version)}`)
  const program = join(home, 'clients')
  if (await isExecutable(program)) return program
  try {
    await fillOnce(home, work => build(sources, work))
  } catch (error) {
    throw new Error(
      `Building test/clients/${language} failed: ${reasonOf(error)}\nInstall ${needs} and put it on PATH.`,
      { cause: error },
    )
  }
  return program
}

async function buildGo(sources, work, command = ['build'], what = '.') {
  const args = [...command, '-ldflags=-s -w', '-o', join(work, 'clients'), what]
  await run('go', args, { cwd: sources, env: { ...process.env, GOTOOLCHAIN: 'local' } })
  return work
}

async function installPython(sources, work) {
  const requirements = join(sources, 'requirements.txt')
  const target = ['--target', join(work, 'packages')]
  await run('python3', ['-m', 'pip', 'install', '--quiet', ...target, '--requirement', requirements])
  await copyFile(join(sources, 'clients.py'), join(work, 'clients.py'))
  await writeFile(join(work, 'clients'), pythonLauncher, { mode: 0o755 })
  return work
}

async function digestOf(folder, version) {
  const hash = createHash('sha256').update(version)
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const files = entries.filter(entry => entry.isFile()).map(entry => join(entry.parentPath, entry.name))
  for (const file of files.sort())
    hash.update(`\n${file.slice(folder.length)}\n`).update(await readFile(file))
  return hash.digest('hex').slice(0, 12)
}

if (process.argv[1] && (await realpath(process.argv[1]).catch(() => '')) === fileURLToPath(import.meta.url)) {
  try {
    const clients = {
      ...{ go: findGoClients, e2e: findKubernetesSpecs, definitions: findDefinitionChecker },
      ...{ 'cert-manager': findCertManager, 'gateway-api': findGatewayTests, operator: findOperator },
      ...{ python: findPythonClients, rust: findRustClients },
    }
    const client = clients[process.argv[2] ?? 'go']
    if (client === undefined) throw new Error(`give one of ${Object.keys(clients).join(', ')}`)
    console.log(await client())
  } catch (error) {
    console.error(error.message)
    process.exitCode = 1
  }
}
