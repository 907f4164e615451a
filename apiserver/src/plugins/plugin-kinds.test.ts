import {
  defineModel,
  definePlugin,
  type Model,
  type Plugin,
  silentLogger,
  singleValueIndex,
  type Transport,
  TransportError,
} from '@setpoint/controller-runtime'
import { setupPlugin } from '@setpoint/controller-runtime/internal'
import { expect, it } from 'vitest'
import { bound, hold, openRooms, type Rooms } from '../../../test/support/rooms.ts'
import { HistoryReplay, LogFollower, ReadGate } from '../cache/index.ts'
import { CustomRoutes, RouteCallers } from '../http/index.ts'
import { ModelRegistry, type ServedModel } from '../model/index.ts'
import { defaultWriteOptions, Registry } from '../registry/index.ts'
import type { Storage } from '../storage/index.ts'
import { WatchHub } from '../watch/index.ts'
import { serverActor } from './actor.ts'
import type { LoadedPlugin } from './load-plugin.ts'
import { PluginKinds } from './plugin-kinds.ts'

const transport: Transport = {
  request: () => Promise.reject(new TransportError('no server')),
  watch: () => Promise.reject(new TransportError('no server')),
}

/** Code of a plugin with one kind. Each call returns another index function, as a reload does. */
function makePlugin({
  name = 'notes',
  pattern = '.*',
  index = 'spec.text',
  more = [] as readonly Model[],
} = {}): Plugin {
  const Note = defineModel({
    ...{ group: 'notes.example.com', version: 'v1', kind: 'Note', singular: 'note', plural: 'notes' },
    schema: {
      spec: { type: 'object', required: ['text'], properties: { text: { type: 'string', pattern } } },
    },
    indexes: [singleValueIndex({ name: index, unique: true, indexFunc: note => note.spec.text })],
  })
  return definePlugin({ name, models: [Note, ...more] })
}

function page(version: string): Model {
  return defineModel({
    ...{ group: 'notes.example.com', version, kind: 'Page', singular: 'page', plural: 'pages' },
    schema: { spec: { type: 'object' } },
  })
}

function loaded(plugin: Plugin): LoadedPlugin {
  return {
    plugin,
    dir: '/notes',
    packageName: 'notes',
    packageVersion: '1.0.0',
    resourcesDir: '/notes/resources',
  }
}

/** A plugin whose kind is served, over a store whose lists wait while `held` is set. */
async function serve({ storage: inner }: Rooms, plugin = makePlugin()) {
  const gateOfLists: { held: Promise<void> | undefined; asked: () => void } = { held: undefined, asked() {} }
  const storage: Storage = {
    ...bound(inner),
    async list(prefix, options) {
      gateOfLists.asked()
      await gateOfLists.held
      return inner.list(prefix, options)
    },
  }
  const follower = new LogFollower({ storage, log: silentLogger })
  const reservedDomain = 'setpoint.dev'
  const registry = new Registry({ storage, reservedDomain, cached: (...args) => follower.entryOf(...args) })
  const gate = new ReadGate(storage, follower)
  const hub = new WatchHub({ gate, replay: new HistoryReplay(storage), follower, log: silentLogger })
  const models = new ModelRegistry()
  const routes = new CustomRoutes(models, reservedDomain, new RouteCallers())
  const actorOf = () => serverActor
  const environment = { models, routes, reservedDomain, storage, registry, follower, hub, actorOf }
  const kindsOf = (plugin: string) =>
    new PluginKinds({ plugin, environment, log: silentLogger, changed() {} })
  const kinds = kindsOf('notes')
  follower.start()
  const hosted = await setupPlugin(plugin, { transport })
  routes.add(hosted)
  expect(kinds.register(loaded(plugin))).toBeUndefined()
  await kinds.start()
  const create = (served: ServedModel, name: string) => {
    const { apiVersion, kind } = served.model
    const body = { apiVersion, kind, metadata: { name }, spec: { text: name } }
    return registry.create(served, body, defaultWriteOptions)
  }
  const cached = async (served: ServedModel, ...names: string[]) => {
    await gate.pass()
    return names.filter(name => follower.cacheOf(served)?.store.get(name) !== undefined)
  }
  return {
    kindsOf,
    follower,
    create,
    cached,
    find: (plural = 'notes') => models.find('notes.example.com', 'v1', plural),
    /** Replaces the code while lists are held. Resolves when one is asked for. */
    async reload(next: Plugin, signal: AbortSignal) {
      const { held, release } = hold()
      gateOfLists.held = held
      const asked = new Promise<void>(resolve => {
        gateOfLists.asked = resolve
      })
      const to = await setupPlugin(next, { transport })
      const replaced = kinds.replace(loaded(next), hosted, to, signal)
      await asked
      return {
        release() {
          gateOfLists.held = undefined
          release()
        },
        replaced,
      }
    },
    async [Symbol.asyncDispose]() {
      kinds.abort()
      hub.close()
      await follower.stop()
    },
  }
}

function present(served: ServedModel | undefined): ServedModel {
  if (served === undefined) throw new Error('the kind is not served')
  return served
}

it('serves the present declaration of a kind while the cache of a reloaded one is built', async () => {
  await using rooms = await openRooms()
  await using world = await serve(rooms)
  const before = present(world.find())
  await world.create(before, 'a')
  const { replaced, release } = await world.reload(makePlugin(), new AbortController().signal)
  expect(world.find()).toBe(before)
  expect(before.phase).toEqual({ name: 'Started' })
  await world.create(before, 'b')
  expect(await world.cached(before, 'a', 'b')).toEqual(['a', 'b'])
  await expect(world.create(before, 'a')).rejects.toMatchObject({ code: 409 })
  release()
  await replaced
  const after = present(world.find())
  expect(after).not.toBe(before)
  expect(after.phase).toEqual({ name: 'Started' })
  expect(await world.cached(after, 'a', 'b')).toEqual(['a', 'b'])
  expect(before.phase).toMatchObject({ name: 'Stopped' })
  expect(world.follower.caches().map(({ served }) => served)).toEqual([after])
})

it('ends the build of a reloaded kind when the plugin is disabled', async () => {
  await using rooms = await openRooms()
  await using world = await serve(rooms)
  const before = world.find()
  const disabled = new AbortController()
  const { replaced, release } = await world.reload(makePlugin(), disabled.signal)
  disabled.abort()
  release()
  await replaced
  const after = present(world.find())
  expect(after).not.toBe(before)
  expect(after.phase).toEqual({ name: 'Starting' })
  expect(world.follower.caches()).toEqual([])
})

it('leaves the present kinds and what they claim in force if reloaded code cannot read what is stored', async () => {
  await using rooms = await openRooms()
  await using world = await serve(rooms, makePlugin({ more: [page('v1')] }))
  const before = present(world.find())
  await world.create(present(world.find('pages')), 'a')
  const next = makePlugin({ index: 'spec.other', more: [page('v2')] })
  const { replaced, release } = await world.reload(next, new AbortController().signal)
  release()
  await expect(replaced).rejects.toThrow('1 object of pages.notes.example.com is stored in v1')
  expect(world.find()).toBe(before)
  expect(before.phase).toEqual({ name: 'Started' })
  // Would be refused with 503 if the other unique index were in force.
  await world.create(before, 'b')
  expect(await world.cached(before, 'b')).toEqual(['b'])
  expect(world.follower.caches().map(({ served }) => served)).toEqual([before, world.find('pages')])
})

it('leaves the present kinds as they are if reloaded code changes the scope of a stored kind', async () => {
  await using rooms = await openRooms()
  await using world = await serve(rooms, makePlugin({ more: [page('v1')] }))
  const before = present(world.find('pages'))
  await world.create(before, 'a')
  const namespaced: Model = { ...page('v1'), scope: 'Namespaced' }
  const next = makePlugin({ index: 'spec.other', more: [namespaced] })
  const { replaced, release } = await world.reload(next, new AbortController().signal)
  release()
  await expect(replaced).rejects.toThrow('the scope of Page has changed')
  expect(world.find('pages')).toBe(before)
  await world.create(present(world.find()), 'b')
})

it('returns the reason for a refused schema, also if the name of the kind is taken', async () => {
  await using rooms = await openRooms()
  await using world = await serve(rooms)
  const present = world.find()
  const refusal = world.kindsOf('others').register(loaded(makePlugin({ name: 'others', pattern: '(' })))
  expect(refusal?.message).toContain('the kind Note: ')
  expect(world.find()).toBe(present)
})
