/**
 * Runs the simulation of `test/simulation`, see docs/maintainers/simulation.md. The simulation, the server and the SDK are
 * bundled from their sources into one file, so that a mutation of any of them is one replaced line.
 */
import { spawn } from 'node:child_process'
import { mkdir, readFile, rm } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { build } from 'esbuild'

/** @typedef {{ readonly name: string, readonly file: string, readonly from: string, readonly to: string, readonly cannotBeSeen?: string }} Mutation */

const root = fileURLToPath(new URL('..', import.meta.url))
const output = `${root}.simulation/`
await mkdir(output, { recursive: true })

/** @type {import('esbuild').Plugin} */
const sharedAjv = {
  name: 'shared ajv',
  setup({ onResolve }) {
    onResolve({ filter: /^ajv$/ }, ({ importer }) =>
      importer.startsWith(`${root}apiserver/`) ? { path: `${root}test/simulation/shared-ajv.ts` } : undefined,
    )
  },
}

const args = process.argv.slice(2)
if (args.includes('--mutations')) await runMutations(args.filter(arg => arg !== '--mutations'))
else {
  // Several may run at once.
  const file = `${output}simulate-${process.pid}.mjs`
  await bundle('simulate.ts', file)
  process.exitCode = await new Promise(resolve =>
    spawn(process.execPath, ['--enable-source-maps', '--max-semi-space-size=64', file, ...args], {
      stdio: 'inherit',
    }).once('exit', resolve),
  )
  for (const each of [file, `${file}.map`]) await rm(each)
}

/**
 * @param {string} entry
 * @param {string} outfile
 * @param {Mutation} [mutation]
 */
async function bundle(entry, outfile, mutation) {
  const sdk = `${root}controller-runtime/src/`
  await build({
    entryPoints: [`${root}test/simulation/${entry}`],
    outfile,
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'node20.19',
    sourcemap: 'linked',
    alias: {
      '@setpoint/controller-runtime': `${sdk}index.ts`,
      '@setpoint/controller-runtime/api': `${sdk}api/index.ts`,
      '@setpoint/controller-runtime/internal': `${sdk}internal.ts`,
      '@setpoint/controller-runtime/testing': `${sdk}testing/index.ts`,
    },
    external: ['lmdb', 'etcd3', '@grpc/grpc-js', 'cockatiel'],
    mainFields: ['module', 'main'],
    banner: {
      js: "import { createRequire as requireOf } from 'node:module'\nconst require = requireOf(import.meta.url)",
    },
    logLevel: 'error',
    plugins: [sharedAjv, ...(mutation === undefined ? [] : [mutating(mutation)])],
  })
}

/**
 * @param {Mutation} mutation
 * @returns {import('esbuild').Plugin} It makes the build fail without the text to replace.
 */
function mutating({ name, file, from, to }) {
  return {
    name: 'mutation',
    setup({ onLoad, onEnd }) {
      let isMutated = false
      onLoad({ filter: /\.ts$/ }, async ({ path }) => {
        if (path !== `${root}${file}`) return undefined
        const source = await readFile(path, 'utf8')
        if (source.split(from).length !== 2)
          throw new Error(`mutation ${name}: ${file} does not have its text exactly once`)
        isMutated = true
        return { contents: source.replace(from, () => to), loader: 'ts' }
      })
      onEnd(() => {
        if (!isMutated) throw new Error(`mutation ${name}: the simulation does not load ${file}`)
      })
    },
  }
}

/**
 * Says after how many seeds each mutation is found. Exits with 1 if one is not.
 * @param {readonly string[]} options
 */
async function runMutations(options) {
  await bundle('mutations.ts', `${output}mutations.mjs`)
  const only = options.find(option => !option.startsWith('--') && Number.isNaN(Number(option)))
  /** @type {{ mutations: readonly Mutation[] }} */
  const { mutations } = await import(pathToFileURL(`${output}mutations.mjs`).href)
  const waiting = mutations.filter(({ name }) => only === undefined || name.includes(only))
  const rest = options.filter(option => option !== only)
  const work = async () => {
    for (let mutation = waiting.shift(); mutation !== undefined; mutation = waiting.shift()) {
      const outfile = `${output}mutant-${mutation.name.replaceAll(' ', '-')}.mjs`
      await bundle('simulate.ts', outfile, mutation)
      const verdict = await verdictOf([
        outfile,
        '--quick',
        ...(rest.length > 0 ? rest : ['--seeds', '10000']),
      ])
      if (!verdict.startsWith('found')) process.exitCode = 1
      process.stdout.write(`${mutation.name}: ${verdict}\n`)
    }
  }
  await Promise.all(Array.from({ length: availableParallelism() }, work))
}

/**
 * @param {readonly string[]} command
 * @returns {Promise<string>} the last line
 */
function verdictOf(command) {
  const child = spawn(process.execPath, command, { stdio: ['ignore', 'pipe', 'pipe'] })
  let text = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', data => (text += data))
  return new Promise(resolve =>
    child.once('close', () => resolve(text.trimEnd().split('\n').slice(-1)[0] ?? 'no verdict')),
  )
}
