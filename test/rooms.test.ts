import { readdirSync, readFileSync } from 'node:fs'
import { posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

/** The doors that a room may use, by its name. */
type Plan = Readonly<Record<string, string>>

/**
 * The plan of the house: what each room of a package may import, from the ground up. A name stands for the room's
 * `index.ts`. Other doors are named one by one.
 */
const server: Plan = {
  'package-folder.ts': '',
  'program-version.ts': 'package-folder.ts',
  log: '',
  storage: '',
  encryption: 'storage',
  model: '',
  openapi: 'model package-folder.ts program-version.ts',
  scheduling: '',
  security: 'log scheduling',
  audit: 'log security',
  registry: 'model storage',
  cache: 'log model scheduling storage',
  query: 'cache/for-query.ts model scheduling',
  watch: 'cache log model query scheduling',
  metrics: 'cache log model watch',
  kubernetes: 'cache log model registry security storage watch',
  http: 'audit cache kubernetes log metrics model openapi query registry scheduling security storage watch program-version.ts',
  operations: 'model registry storage',
  plugins: 'audit cache http log metrics model registry scheduling security storage watch package-folder.ts',
  definitions:
    'cache http kubernetes log model model/cel model/schema-error.ts model/schema-rules.ts openapi plugins registry ' +
    'security storage watch',
  'rooms.ts':
    'audit cache definitions http kubernetes model plugins registry scheduling security storage watch',
  testing:
    'definitions/kind definitions/kind/validation http log metrics model plugins security storage storage/embedded ' +
    'storage/etcd watch rooms.ts package-folder.ts',
  // The command reads its flags without loading the whole server.
  cli:
    'audit audit/policy-file.ts cache definitions encryption encryption/configuration.ts http kubernetes ' +
    'kubernetes/service-accounts/token-life.ts log metrics model operations plugins registry ' +
    'security security/access.ts security/token-list.ts storage storage/embedded storage/etcd watch watch/watch-limits.ts ' +
    'rooms.ts program-version.ts package-folder.ts',
}

/** The SDK has small rooms, which import each other's files. Those beside the rooms are for every room but `api`. */
const sdk: Plan = {
  api: '',
  kinds: 'api',
  client: 'api',
  watch: 'api client',
  cache: 'api client watch',
  wait: 'api client watch',
  workqueue: '',
  metrics: 'workqueue',
  controller: 'api cache client metrics workqueue',
  events: 'api cache client kinds workqueue',
  collector: 'api client controller metrics watch workqueue',
  plugin: 'api client controller events kinds metrics',
  targets: 'plugin',
  manager: 'api cache client controller events kinds metrics plugin watch',
  testing: 'api client controller kinds manager plugin',
}

/** The entries of the SDK that each package may import. Plugins are limited to what the reference documents. */
const entries: Readonly<Record<string, readonly string[]>> = {
  'controller-runtime': [],
  apiserver: ['', '/api', '/internal', '/testing'],
  plugins: ['', '/testing'],
}

const root = fileURLToPath(new URL('..', import.meta.url))
const plugins = readdirSync(`${root}plugins`).map(name => `plugins/${name}`)
const packages = ['apiserver', 'controller-runtime', ...plugins]

/** Imports and exports at the beginning of a line, and imports as expressions and types. */
const imports = /^(?:import|export)\s(?:[\w\s{},*$]*?\sfrom\s)?'([^']+)'|\bimport\('([^']+)'\)/gm

/** Returns the imports of a file that the plan does not have. */
function unplanned(file: string, text: string): string[] {
  const specifiers = [...text.matchAll(imports)].map(
    ([, statement, expression]) => statement ?? expression ?? '',
  )
  return specifiers
    .filter(specifier => !isPlanned(file, specifier))
    .map(specifier => `${file} imports ${specifier}`)
}

function isPlanned(file: string, specifier: string): boolean {
  const home = packages.find(name => file.startsWith(`${name}/`)) ?? ''
  if (specifier.startsWith('@setpoint/')) {
    const ofPackage = entries[home.replace(/\/.*/, '')] ?? []
    return ofPackage.some(entry => specifier === `@setpoint/controller-runtime${entry}`)
  }
  if (!specifier.startsWith('.')) return true
  const target = posix.join(posix.dirname(file), specifier)
  if (!target.startsWith(`${home}/src/`)) return false
  const [from, to] = [posix.relative(`${home}/src`, file), posix.relative(`${home}/src`, target)]
  const [room = ''] = from.split('/')
  if (to.startsWith(`${room}/`)) return true
  if (home === 'apiserver')
    return doorsOf(server, room).some(door => to === door || to === `${door}/index.ts`)
  if (home !== 'controller-runtime' || !from.includes('/')) return true
  return to.includes('/') ? doorsOf(sdk, room).some(door => to.startsWith(`${door}/`)) : room !== 'api'
}

const doorsOf = (plan: Plan, room: string) => plan[room]?.split(' ') ?? []

test('every import is in the plan of the house', () => {
  const found = packages.flatMap(name =>
    readdirSync(`${root}${name}/src`, { encoding: 'utf8', recursive: true })
      .filter(path => path.endsWith('.ts') && !path.endsWith('.test.ts'))
      .map(path => `${name}/src/${path}`)
      .flatMap(file => unplanned(file, readFileSync(root + file, 'utf8'))),
  )
  expect(found).toEqual([])
})

test('every room rests on those below it', () => {
  for (const plan of [server, sdk]) {
    const rooms = Object.keys(plan)
    for (const [at, room] of rooms.entries())
      for (const door of doorsOf(plan, room).filter(Boolean))
        expect(rooms.slice(0, at), room).toContain(door.replace(/\/.*/, ''))
  }
})

test.each([
  ['apiserver/src/model/a.ts', '../registry/index.ts'],
  ['apiserver/src/kubernetes/rbac/a.ts', '../../http/index.ts'],
  ['apiserver/src/http/a.ts', '../registry/patch.ts'],
  ['apiserver/src/query/a.ts', '../cache/index.ts'],
  ['apiserver/src/http/a.ts', '../rooms.ts'],
  ['apiserver/src/attic/a.ts', '../model/index.ts'],
  ['apiserver/src/cli/a.ts', '../attic/index.ts'],
  ['apiserver/src/cli/a.ts', '../../../test/support/rooms.ts'],
  ['apiserver/src/cli/a.ts', '../../../controller-runtime/src/index.ts'],
  ['apiserver/src/plugins/a.ts', '@setpoint/plugin-uptime'],
  ['controller-runtime/src/api/a.ts', '../clock.ts'],
  ['controller-runtime/src/client/a.ts', '../cache/informer.ts'],
  ['controller-runtime/src/testing/a.ts', '@setpoint/apiserver/testing'],
  ['controller-runtime/src/index.ts', '../../apiserver/src/model/index.ts'],
  ['plugins/uptime/src/a.ts', '@setpoint/controller-runtime/internal'],
  ['plugins/uptime/src/a.ts', '@setpoint/apiserver/testing'],
  ['plugins/uptime/src/a.ts', '../../../controller-runtime/src/clock.ts'],
  ['plugins/uptime/src/a.ts', '../../webhooks/src/index.ts'],
])('an import that is not in the plan is found: %s, %s', (file, specifier) => {
  for (const statement of [
    `import { a } from '${specifier}'`,
    `import type {\n  A,\n} from '${specifier}'`,
    `import a, * as b from '${specifier}'`,
    `import '${specifier}'`,
    `export * from '${specifier}'`,
    `const a = await import('${specifier}')`,
    `let a: typeof import('${specifier}')`,
  ])
    expect(unplanned(file, `import 'node:fs'\n${statement}\n`)).toEqual([`${file} imports ${specifier}`])
})
