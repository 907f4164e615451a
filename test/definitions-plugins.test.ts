import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { Api, objectOf, refusalOf } from './support/api.ts'
import {
  applyDefinition,
  define,
  definitionOf,
  definitionsPath,
  objectsOf,
  pathOf,
} from './support/definitions.ts'
import { pluginStates, writePlugin } from './support/plugins.ts'
import { type ServerOptions, startSharedServer } from './support/server.ts'
import { Users } from './support/users.ts'
import { eventually } from './support/worlds.ts'

/** Plugins that ship definitions, and that have controllers for kinds which definitions declare. */

const cleanups: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean()
})

const spec = { type: 'object', properties: { size: { type: 'integer', minimum: 0 } } }
const status = { type: 'object', properties: { doubled: { type: 'integer' } } }
const pumps = definitionOf({
  plural: 'pumps',
  group: 'water.example.com',
  scope: 'Namespaced',
  versions: {
    v1: { subresources: { status: {} }, root: { properties: { spec, status } }, selectable: ['.spec.size'] },
  },
})

/** A typed client of a kind that the plugin does not declare: it is not among the models of the plugin. */
const index = `import { defineModel, definePlugin } from '@setpoint/controller-runtime'
const Pump = defineModel({
  group: 'water.example.com', version: 'v1', kind: 'Pump', singular: 'pump', plural: 'pumps', scope: 'Namespaced',
  schema: { spec: { type: 'object', properties: { size: { type: 'integer' } } }, status: { type: 'object', properties: { doubled: { type: 'integer' } } } },
  subresources: { status: true },
})
export default definePlugin({
  name: 'water',
  permissions: [
    { apiGroups: ['water.example.com'], resources: ['pumps', 'pumps/status'], verbs: ['get', 'list', 'watch', 'create', 'update', 'patch'] },
    { apiGroups: ['apiextensions.k8s.io'], resources: ['customresourcedefinitions'], verbs: ['get', 'create', 'update', 'patch'] },
  ],
  setup(plugin) {
    plugin.controller(Pump, c => c.reconcile(async (pump, { client }) => {
      await client.patchStatus(Pump, pump, { doubled: 2 * (pump.spec.size ?? 0) })
    }))
  },
})
`

async function waterPlugin(files: Readonly<Record<string, string>> = {}): Promise<string> {
  const dir = await writePlugin({ 'index.js': index, ...files })
  cleanups.push(() => rm(dir, { recursive: true, force: true }))
  return dir
}

async function start(options: ServerOptions) {
  const server = await startSharedServer(options)
  cleanups.push(() => server.stop())
  return server
}

const pump = (name: string, size: number) => ({
  ...{
    apiVersion: 'water.example.com/v1',
    kind: 'Pump',
    metadata: { name, namespace: 'default' },
    spec: { size },
  },
})

describe('a plugin that ships a definition', () => {
  const shipped = {
    // In the order of their names the object comes first.
    'resources/extensions/a-objects.yaml': JSON.stringify(pump('shipped', 3)),
    'resources/extensions/b-definition.yaml': JSON.stringify(pumps),
  }

  it('has its kind, its objects and its controller when it has started, and no problem is left', async () => {
    const server = await start({ plugins: [await waterPlugin(shipped)] })
    const api = new Api(server.url)
    const objects = objectsOf(api, pumps, { namespace: 'default' })
    await eventually(async () => expect((await objects.read('shipped')).status).toEqual({ doubled: 6 }))
    // Until its definition is established, the controller waits for its kind and says so.
    await eventually(async () => {
      const state = (await pluginStates(api)).get('water')
      expect([state?.phase, state?.problems]).toEqual(['Started', '[]'])
    })
    expect(server.stderr()).not.toContain('a shipped object has a problem')
    await server.restart()
    await eventually(async () => expect((await objects.read('shipped')).status).toEqual({ doubled: 6 }))
    await objects.create('other', { size: 4 })
    await eventually(async () => expect((await objects.read('other')).status).toEqual({ doubled: 8 }))
  })

  it('may do so where permissions count, once it has been granted what it asks for', async () => {
    const users = await Users.make({ ann: ['setpoint:admins'] })
    const server = await start({
      plugins: [await waterPlugin(shipped)],
      args: [...users.args, '--grant-plugins'],
    })
    const api = users.api(server.url, 'ann')
    const objects = objectsOf(api, pumps, { namespace: 'default' })
    await eventually(async () => expect((await objects.read('shipped')).status).toEqual({ doubled: 6 }))
  })
})

describe('a controller of a kind that a definition declares', () => {
  it('works through changes of the definition, and begins again when it is deleted and created again', async () => {
    const server = await start({ plugins: [await waterPlugin()] })
    const api = new Api(server.url)
    const objects = objectsOf(api, pumps, { namespace: 'default' })
    await eventually(async () =>
      expect((await pluginStates(api)).get('water')?.problems).toContain('which is not served'),
    )
    for (let round = 0; round < 2; round++) {
      await define(api, pumps)
      await objects.create('a', { size: 1 })
      await eventually(async () => expect((await objects.read('a')).status).toEqual({ doubled: 2 }))
      await applyDefinition(api, {
        ...pumps,
        spec: { ...Object(pumps.spec), names: { ...Object(Object(pumps.spec).names), shortNames: ['pm'] } },
      })
      objectOf(await api.mergePatch(objects.at('a'), { spec: { size: 5 } }))
      await eventually(async () => expect((await objects.read('a')).status).toEqual({ doubled: 10 }))
      objectOf(await api.delete(pathOf(pumps)))
      await eventually(async () => refusalOf(await api.get(pathOf(pumps)), 404))
    }
  })
})

describe('with --kubernetes-kinds=false', () => {
  it('definitions are hidden, and kinds that they have declared before go on', async () => {
    const dataDir = await mkdtemp(join(tmpdir(), 'setpoint-hidden-'))
    cleanups.push(() => rm(dataDir, { recursive: true, force: true }))
    const definition = definitionOf({ plural: 'stays' })
    const before = await start({ dataDir })
    await define(new Api(before.url), definition)
    await objectsOf(new Api(before.url), definition).create('a', {})
    await before.end()
    const api = new Api((await start({ dataDir, args: ['--kubernetes-kinds=false'] })).url)
    refusalOf(await api.get(definitionsPath), 404)
    refusalOf(await api.post(definitionsPath, definitionOf({ plural: 'others' })), 404)
    const stays = objectsOf(api, definition)
    await stays.create('b', {})
    expect((await stays.list({ sort: 'metadata.name' })).names).toEqual(['a', 'b'])
    expect((await api.get('/apis/live.example.com/v1')).status).toBe(200)
    expect((await api.get('/apis')).text).not.toContain('apiextensions.k8s.io')
  })
})
