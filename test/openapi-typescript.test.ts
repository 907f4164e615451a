import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { fieldsOf } from './support/json.ts'
import { findGenerator } from './support/openapi-typescript.ts'
import { type SharedWorld, startSharedWorld } from './support/worlds.ts'

/** Types that a public generator makes of the OpenAPI documents. */

const root = fileURLToPath(new URL('..', import.meta.url))
const run = promisify(execFile)

/** Uses the types of the plugin `described`. Each line below an expected error is one. */
const use = `
import type { components, operations, paths } from './types/described.example.com-v1.js'

type Boat = components['schemas']['com.example.described.v1.Boat']

const boat: Boat = {
  apiVersion: 'described.example.com/v1',
  kind: 'Boat',
  metadata: { name: 'a', labels: { 'example.com/team': 'a' } },
  spec: { name: 'Albatross', masts: 1, hull: null, port: 'north', cargo: { gold: 3 }, papers: { any: ['thing'] } },
  status: { afloat: true },
}
export const hull: 'wood' | 'steel' | null | undefined = boat.spec.hull
export const version: string | undefined = boat.metadata.version

// @ts-expect-error it has no name
export const nameless: Boat['spec'] = { masts: 1 }
// @ts-expect-error it is no number
boat.spec.masts = 'one'

type List = paths['/apis/described.example.com/v1/boats']['get']
export const query: List['parameters']['query'] = { sort: ['spec.hull,asc'], size: 20, watch: false }
export type Listed = List['responses'][200]['content']['application/json']
export const total = (list: Listed): number | undefined => list.total ?? list.items[0]?.spec.masts

type Failure = operations['replaceDescribedExampleComV1BoatStatus']['responses'][409]['content']['application/json']
export const isConflict = ({ reason }: Failure): boolean => reason === 'Conflict'
// @ts-expect-error there is no such reason
export const isOther = ({ reason }: Failure): boolean => reason === 'Other'

type Merge = paths['/apis/described.example.com/v1/boats/{name}']['patch']['requestBody']['content']
export const patch: Merge['application/merge-patch+json'] = { spec: { masts: 2 } }
export const operationsOfPatch: Merge['application/json-patch+json'] = [{ op: 'remove', path: '/spec/masts' }]
`

let world: SharedWorld
let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-codegen-'))
  world = await startSharedWorld('embedded', ['described-plugin', 'items-plugin', 'demo-plugin'])
})
afterAll(async () => {
  await world?.end()
  await rm(folder, { recursive: true, force: true })
})

it('openapi-typescript makes types of every document that compile under strict, and mean what the schemas say', async () => {
  const { body } = await world.api.get('/openapi/v3')
  const keys = Object.keys(fieldsOf(fieldsOf(body).paths))
  await mkdir(join(folder, 'types'))
  const apis = Object.fromEntries(
    await Promise.all(
      keys.map(async key => {
        const [, group, version] = key.split('/')
        const name = `${group}-${version}`
        await writeFile(join(folder, `${name}.json`), (await world.api.get(`/openapi/v3/${key}`)).text)
        const output = { 'x-openapi-ts': { output: `./types/${name}.ts` } }
        return [name, { root: `./${name}.json`, ...output }]
      }),
    ),
  )
  await writeFile(join(folder, 'redocly.yaml'), JSON.stringify({ apis }))
  await run(process.execPath, [await findGenerator()], { cwd: folder })
  await writeFile(join(folder, 'use.ts'), use)
  await writeFile(join(folder, 'package.json'), JSON.stringify({ type: 'module' }))
  const files = Object.keys(apis).map(name => `types/${name}.ts`)
  const target = ['--target', 'es2022', '--module', 'nodenext', '--noEmit', '--noUncheckedIndexedAccess']
  const args = ['--ignoreConfig', '--strict', '--types', '', ...target, 'use.ts', ...files]
  const compiled = run(join(root, 'node_modules/.bin/tsc'), args, { cwd: folder })
  // The compiler writes its errors to standard output.
  await compiled.catch(({ stdout }) => expect.fail(stdout))
  expect(files.length).toBeGreaterThan(5)
})
