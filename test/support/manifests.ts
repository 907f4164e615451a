import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { loadAll } from 'js-yaml'
import { fieldsOf, textOf } from './json.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** The module that declares the type of a kind: one of `kubernetes-types`, or one in this folder. */
const modules: Readonly<Record<string, string>> = {
  v1: 'kubernetes-types/core/v1.js',
  'apps/v1': 'kubernetes-types/apps/v1.js',
  'autoscaling/v2': 'kubernetes-types/autoscaling/v2.js',
  'batch/v1': 'kubernetes-types/batch/v1.js',
  'networking.k8s.io/v1': 'kubernetes-types/networking/v1.js',
  'policy/v1': 'kubernetes-types/policy/v1.js',
  'monitoring.coreos.com/v1': '../../test/support/service-monitor.ts',
}

export interface Manifests {
  readonly name: string
  readonly yaml: string
}

/**
 * Returns what the TypeScript compiler finds wrong with manifests, one line a problem. Each object becomes a literal of
 * the type of its kind, so the compiler rejects unknown kinds and fields, missing fields and values of a wrong type.
 */
export async function problemsOf(manifests: readonly Manifests[]): Promise<readonly string[]> {
  const lines = manifests.flatMap(({ name, yaml }) =>
    loadAll(yaml)
      .filter(document => document !== null && document !== undefined)
      .map((document, n) => {
        const { apiVersion, kind } = fieldsOf(document)
        const module = modules[textOf(apiVersion)] ?? `unknown apiVersion ${textOf(apiVersion)}`
        const type = `import(${JSON.stringify(module)}).${textOf(kind)}`
        return {
          label: `${name}: document ${n}`,
          code: `void (${JSON.stringify(document)} satisfies ${type})`,
        }
      }),
  )
  // Inside the repository, where the compiler finds kubernetes-types.
  await mkdir(join(root, '.cache'), { recursive: true })
  const folder = await mkdtemp(join(root, '.cache', 'manifests-'))
  try {
    const file = join(folder, 'manifests.ts')
    await writeFile(file, lines.map(({ code }) => `${code}\n`).join(''))
    const output = await compile(file)
    return [...output.matchAll(/manifests\.ts\((\d+),\d+\): error TS\d+: (.*)/g)].map(
      ([, line, message]) => `${lines[Number(line) - 1]?.label}: ${message}`,
    )
  } finally {
    await rm(folder, { recursive: true })
  }
}

/** @throws Error if the compiler fails for a reason other than errors in the file */
function compile(file: string): Promise<string> {
  const tsc = join(root, 'node_modules', '.bin', 'tsc')
  const checks = ['--noEmit', '--strict', '--skipLibCheck']
  const modules = ['--module', 'nodenext', '--allowImportingTsExtensions', '--types', '']
  const args = ['--ignoreConfig', ...checks, ...modules, file]
  return new Promise((resolve, reject) => {
    execFile(tsc, args, { maxBuffer: 64 * 1024 * 1024 }, (error, stdout, stderr) => {
      if (error === null || stdout.includes('manifests.ts(')) resolve(stdout)
      else reject(new Error(`${stdout}${stderr}`, { cause: error }))
    })
  })
}
