import { rm } from 'node:fs/promises'
import { afterEach, describe, expect, it } from 'vitest'
import { Api, objectOf, refusalOf } from './support/api.ts'
import {
  conditionIn,
  define,
  definitionOf,
  messageIn,
  objectsOf,
  pathOf,
  readDefinition,
} from './support/definitions.ts'
import type { Fields } from './support/json.ts'
import { itemsOf, pluginsPath } from './support/kinds.ts'
import { pluginModule, pluginStates, writePlugin } from './support/plugins.ts'
import { type RunningServer, type ServerOptions, startSharedServer } from './support/server.ts'
import { eventually, startSharedWorld, stores } from './support/worlds.ts'

const cleanups: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean()
})

const established = 'True InitialNamesAccepted'

async function expectState(api: Api, definition: Fields, names: string, isServed: string): Promise<void> {
  await eventually(async () => {
    const found = await readDefinition(api, definition)
    expect([conditionIn(found, 'NamesAccepted'), conditionIn(found, 'Established')]).toEqual([
      names,
      isServed,
    ])
  })
}

const accepts = (api: Api, definition: Fields) =>
  expectState(api, definition, 'True NoConflicts', established)

/** Expects that a definition is not served because of a name. */
async function refuses(api: Api, definition: Fields, reason: string, message: RegExp): Promise<void> {
  await expectState(api, definition, `False ${reason}`, 'False NotAccepted')
  expect(messageIn(await readDefinition(api, definition), 'NamesAccepted')).toMatch(message)
}

describe.each(stores)('on %s, a definition with a name that is taken', store => {
  async function startWorld(fixtures: readonly string[] = []) {
    const world = await startSharedWorld(store, fixtures)
    cleanups.push(() => world.end())
    return world
  }

  it('by a plugin is not served, says whose it is, and leaves the objects of the plugin alone', async () => {
    const { server, api } = await startWorld(['items-plugin'])
    const clash = definitionOf({ group: 'items.example.com', plural: 'items' })
    const items = itemsOf(api)
    const { raw } = await items.create('a', { rank: '1' })
    for (const restart of [false, true]) {
      if (restart) await server.restart()
      else await define(api, clash)
      await refuses(api, clash, 'ListKindConflict', /"ItemList" is already in use by the plugin "items"/)
      expect((await items.read('a')).raw).toEqual(raw)
      refusalOf(await api.get(`${items.path}?fieldSelector=spec.unknown=1`), 400)
    }
    objectOf(await api.delete(pathOf(clash)))
    refusalOf(await api.get(pathOf(clash)), 404)
    expect((await items.read('a')).raw).toEqual(raw)
  })

  it.each([
    ['PluralConflict', { plural: 'devices', names: { kind: 'Other', singular: 'other' } }, 'devices'],
    ['SingularConflict', { plural: 'others', names: { kind: 'Other', singular: 'device' } }, 'device'],
    [
      'KindConflict',
      { plural: 'others', names: { kind: 'Device', listKind: 'Others', singular: 'other' } },
      'Device',
    ],
    [
      'ListKindConflict',
      { plural: 'others', names: { kind: 'Other', listKind: 'DeviceList', singular: 'other' } },
      'DeviceList',
    ],
    [
      'ShortNamesConflict',
      { plural: 'others', names: { kind: 'Other', singular: 'other', shortNames: ['device'] } },
      'device',
    ],
  ])('of any sort (%s) waits until the other definition is gone', async (reason, parts, name) => {
    const { server, api } = await startWorld()
    const holder = definitionOf({ plural: 'devices' })
    const group = 'live.example.com'
    const plural = parts.plural === 'devices' ? 'x' : parts.plural
    // Two definitions of one group cannot have the same plural, because it is in their name: another name holds it.
    const taker = definitionOf({ ...parts, plural, group })
    if (reason === 'PluralConflict') {
      await define(api, definitionOf({ plural: 'devices', names: { kind: 'Held', singular: 'x' } }))
      await define(api, taker)
      await refuses(
        api,
        taker,
        reason,
        /"x" is already in use by the definition "devices\.live\.example\.com"/,
      )
    } else {
      await define(api, holder)
      await define(api, taker)
      const message = new RegExp(`"${name}" is already in use by the definition "devices.live.example.com"`)
      await refuses(api, taker, reason, message)
    }
    refusalOf(await api.get(objectsOf(api, taker).path), 404)
    expect((await api.get('/apis/live.example.com/v1')).text).not.toContain(`"name":"${plural}"`)
    await server.restart()
    await accepts(api, holder)
    await expectState(api, taker, `False ${reason}`, 'False NotAccepted')
    objectOf(await api.delete(pathOf(holder)))
    await accepts(api, taker)
    await objectsOf(api, taker).create('a', {})
  })

  it('by a built-in kind is not served', async () => {
    const { api } = await startWorld()
    const group = 'coordination.k8s.io'
    const metadata = { annotations: { 'api-approved.kubernetes.io': 'https://example.com/1' } }
    const clash = definitionOf({ group, plural: 'leases', metadata })
    await define(api, clash)
    await expectState(api, clash, 'False ListKindConflict', 'False NotAccepted')
    const beside = definitionOf({ group, plural: 'rents', metadata })
    await define(api, beside)
    await accepts(api, beside)
    const rents = objectsOf(api, beside)
    expect((await api.post(rents.path, rents.body('a', {}))).status).toBe(201)
    expect((await api.get('/apis/coordination.k8s.io/v1/leases')).status).toBe(200)
  })

  it('keeps the names that it has when it is changed to take another one', async () => {
    const { api, server } = await startWorld()
    const cup = definitionOf({ plural: 'cups', names: { shortNames: ['cp'] } })
    const mug = definitionOf({ plural: 'mugs', names: { shortNames: ['mg'] } })
    await define(api, cup)
    await define(api, mug)
    await accepts(api, mug)
    const names = { singular: 'beaker', shortNames: ['cp'] }
    objectOf(await api.mergePatch(pathOf(mug), { spec: { names } }))
    await expectState(api, mug, 'False ShortNamesConflict', established)
    const mugs = objectsOf(api, mug)
    await mugs.create('a', {})
    await server.restart()
    await expectState(api, mug, 'False ShortNamesConflict', established)
    const { acceptedNames } = (await readDefinition(api, mug)).status
    expect(acceptedNames).toMatchObject({ plural: 'mugs', singular: 'beaker', shortNames: ['mg'] })
    expect((await mugs.list()).names).toEqual(['a'])
    objectOf(await api.delete(pathOf(cup)))
    await accepts(api, mug)
  })
})

describe('a plugin that declares the kind of a definition', () => {
  const definition = definitionOf({ group: 'late.example.com', plural: 'things' })

  async function start(options: ServerOptions = {}): Promise<RunningServer> {
    const server = await startSharedServer(options)
    cleanups.push(() => server.stop())
    return server
  }

  async function latePlugin(parts: Parameters<typeof pluginModule>[1] = {}): Promise<string> {
    const dir = await writePlugin({ 'index.js': pluginModule('late', parts) })
    cleanups.push(() => rm(dir, { recursive: true, force: true }))
    return dir
  }

  it('fails and names the definition, and starts once that is deleted', async () => {
    const server = await start()
    const api = new Api(server.url)
    await define(api, definition)
    const objects = objectsOf(api, definition)
    const { raw } = await objects.create('a', { text: 'of the definition' })
    await server.restart({ plugins: [await latePlugin()] })
    const state = async () => (await pluginStates(api)).get('late')
    await eventually(async () => expect((await state())?.phase).toBe('Failed'))
    expect((await state())?.message).toContain('the definition "things.late.example.com"')
    await accepts(api, definition)
    expect((await objects.read('a')).raw).toEqual(raw)
    objectOf(await api.delete(pathOf(definition)))
    objectOf(await api.mergePatch(`${pluginsPath}/late`, { spec: { reload: '1' } }))
    await eventually(async () => expect((await state())?.phase).toBe('Started'))
    expect((await objects.list()).names).toEqual([])
    await objects.create('b', { text: 'of the plugin' })
    await define(api, definition)
    await refuses(api, definition, 'ListKindConflict', /the plugin "late"/)
  })

  it('leaves it its objects when it is uninstalled', async () => {
    const server = await start({ plugins: [await latePlugin()] })
    const api = new Api(server.url)
    const objects = objectsOf(api, definition)
    const { metadata } = await objects.create('a', { text: '1' })
    await define(api, definition)
    await refuses(api, definition, 'ListKindConflict', /the plugin "late"/)
    await server.restart({ plugins: [] })
    await accepts(api, definition)
    expect((await objects.read('a')).metadata).toEqual(metadata)
    objectOf(await api.mergePatch(objects.at('a'), { spec: { text: '2' } }))
  })

  it('fails if one of its routes would shadow the kind of a definition', async () => {
    const server = await start()
    const api = new Api(server.url)
    await define(api, definition)
    const setup = "plugin.routes('late.example.com/v1', r => r.get('/things', () => ({ body: {} })))"
    await server.restart({ plugins: [await latePlugin({ group: 'other.example.com', setup })] })
    const state = async () => (await pluginStates(api)).get('late')
    await eventually(async () => expect((await state())?.phase).toBe('Failed'))
    expect((await state())?.message).toContain('things')
    expect((await objectsOf(api, definition).list()).names).toEqual([])
  })

  it('has routes that keep a definition from being served', async () => {
    const setup = "plugin.routes('late.example.com/v1', r => r.get('/things', () => ({ body: {} })))"
    const server = await start({ plugins: [await latePlugin({ group: 'other.example.com', setup })] })
    const api = new Api(server.url)
    await define(api, definition)
    await expectState(api, definition, 'True NoConflicts', 'False NotServed')
    expect(messageIn(await readDefinition(api, definition), 'Established')).toContain('"late"')
    expect((await api.get('/apis/late.example.com/v1/things')).body).toEqual({})
    objectOf(await api.delete(pathOf(definition)))
    refusalOf(await api.get(pathOf(definition)), 404)
  })
})
