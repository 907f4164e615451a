import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { findChromium } from '../../scripts/chromium.mjs'
import { findGoClients, findPythonClients } from '../../scripts/clients.mjs'
import { findEtcd, findEtcdutl } from '../../scripts/etcd.mjs'
import { findHelm, findKubectl, kubectlVersions } from '../../scripts/kubernetes-tools.mjs'
import { findShell } from './doc-shell.ts'
import { findGenerator } from './openapi-typescript.ts'
import { findOpenssl } from './openssl.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** Programs that tests start, and the modules or test files that start them. */
const tools = [
  { find: findChromium, modules: ['chromium.ts'] },
  { find: findEtcd, modules: ['etcd.ts', 'etcd-pods.ts'] },
  { find: findEtcdutl, modules: ['etcd-snapshot.ts'] },
  { find: findHelm, modules: ['helm.ts'] },
  { find: findEveryKubectl, modules: ['kubectl.ts'] },
  { find: findGenerator, modules: ['openapi-typescript.ts'] },
  { find: findOpenssl, modules: ['openssl.ts'] },
  { find: findGoClients, modules: ['../kubernetes-go.test.ts'] },
  { find: findPythonClients, modules: ['../kubernetes-python.test.ts'] },
  { find: findShell, modules: ['doc-shell.ts'] },
]

export interface MissingTool {
  /** Names the program and how to get it. */
  readonly reason: string
  /** The test files that cannot run, relative to the repository's root. */
  readonly files: readonly string[]
}

/** Finds or fetches every program, once for all test files. Returns the missing ones. */
export async function findTools(): Promise<readonly MissingTool[]> {
  const missing: MissingTool[] = []
  for (const { find, modules } of tools) {
    await find().catch((error: Error) => {
      const paths = modules.map(module => fileURLToPath(new URL(module, import.meta.url)))
      const files = testFiles().filter(file => paths.some(path => imports(join(root, file), path)))
      missing.push({ reason: error.message, files })
    })
  }
  return missing
}

async function findEveryKubectl(): Promise<void> {
  await findKubectl()
  await Promise.all(kubectlVersions.map(findKubectl))
}

function testFiles(): string[] {
  return ['apiserver/src', 'controller-runtime/src', 'test'].flatMap(folder =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter(name => name.endsWith('.test.ts'))
      .map(name => join(folder, name)),
  )
}

/** Returns true if `file` statically imports `module`, directly or through other modules. Types do not count. */
export function imports(file: string, module: string, seen = new Set<string>()): boolean {
  if (file === module) return true
  if (seen.has(file)) return false
  seen.add(file)
  const text = readFileSync(file, 'utf8')
  const targets = [...text.matchAll(/^(?:import|export) (?!type )[^']*?from '(\.[^']+\.ts)'/gm)]
  return targets.some(([, target = '']) => imports(join(dirname(file), target), module, seen))
}
