import { createClient, defineModel, HttpTransport, Informer } from '@setpoint/controller-runtime'
import { laterRevision } from '@setpoint/controller-runtime/api'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Api } from './support/api.ts'
import {
  applyDefinition,
  type DefinitionParts,
  define,
  definitionOf,
  objectsOf,
  type VersionParts,
} from './support/definitions.ts'
import type { Fields } from './support/json.ts'
import { Load, patchedObjects } from './support/load.ts'
import { markOf, recordedListOf } from './support/record.ts'
import { RecordedWatcher } from './support/recorded-watcher.ts'
import { transports } from './support/transports.ts'
import { RunRecorder } from './support/watch-record/index.ts'
import { bothStores, eventually, startWorld, type World } from './support/worlds.ts'

/** A definition that changes while objects of its kind are written and watched. */

const gauges = (versions: Readonly<Record<string, VersionParts>>, more: Partial<DefinitionParts> = {}) =>
  definitionOf({ plural: 'gauges', versions, ...more })
const plain: Fields = { type: 'object', properties: { op: { type: 'string' } } }
const spec: Fields = { type: 'object', properties: { op: { type: 'string' }, color: { type: 'string' } } }
const columns = [{ name: 'Op', type: 'string', jsonPath: '.spec.op' }]
const first = gauges({ v1: { spec: plain } })

/** What becomes of the definition, one after the other. */
const changes: readonly Fields[] = [
  // A new property, a new column, a new selectable field, a new version.
  gauges({ v1: { spec } }),
  gauges({ v1: { spec, columns } }),
  gauges({ v1: { spec, selectable: ['.spec.op'] } }),
  gauges({ v1: { spec }, v2: { spec } }),
  // Another version that objects are stored in, with further indexes.
  gauges({ v2: { spec }, v1: { spec } }),
  gauges({ v2: { spec }, v1: { spec } }, { indexes: [{ path: '.spec.color' }] }),
  gauges({ v2: { spec }, v1: { spec } }, { indexes: [{ path: '.spec.op', unique: true }] }),
  gauges(
    { v2: { spec }, v1: { spec } },
    { indexes: [{ name: 'spec.op', path: '.spec.color', unique: true }] },
  ),
  // The other version is not served any more.
  gauges({ v1: { spec }, v2: { spec, served: false } }),
]

const Gauge = defineModel({
  group: 'live.example.com',
  version: 'v1',
  kind: 'Gauge',
  singular: 'gauge',
  plural: 'gauges',
  schema: { spec: { type: 'object', properties: { op: { type: 'string' } } } },
})

describe.each(bothStores)('a definition that changes under load on the %s store', store => {
  let world: World

  beforeAll(async () => {
    world = await startWorld(store, [])
  })
  afterAll(() => world?.end())

  it('loses and refuses no write of its objects, and their watches have neither a gap nor a duplicate', async () => {
    const { api } = world
    const servers = [world.server, ...(store === 'etcd' ? [await world.another()] : [])]
    const apis = servers.map(({ url }) => new Api(url))
    await define(api, first)
    const recorder = new RunRecorder({ markOf })
    const watchers = servers.flatMap(({ url }, at) =>
      Object.entries(transports).map(
        ([name, transport]) =>
          new RecordedWatcher({
            ...{ url: () => url, address: objectsOf(api, first).path, transport },
            recorder: recorder.watcher(`${name} of server ${at}`, { witness: true }),
          }),
      ),
    )
    await Promise.all(watchers.map(watcher => watcher.synced()))
    const transport = new HttpTransport({ server: servers.at(-1)?.url ?? '' })
    const informer = new Informer(Gauge, { client: createClient(transport) })
    informer.start()
    await informer.synced
    let turn = 0
    const refusals: string[] = []
    const load = new Load(
      recorder,
      () => apis[turn++ % apis.length] ?? api,
      8,
      outcome => void (outcome.kind === 'refused' && refusals.push(outcome.why)),
      patchedObjects(each => objectsOf(each, first, { version: 'v1' })),
    )
    for (const definition of changes) {
      await load.progress(40)
      await applyDefinition(api, definition)
    }
    await load.progress(40)
    await load.stop()
    const { acknowledged } = recorder
    const list = recordedListOf(await api.get(objectsOf(api, first).path))
    recorder.listed({ name: 'the last list', selects: () => true, ...list, acknowledged })
    const upTo = laterRevision(list.version, acknowledged)
    await Promise.all(watchers.map(watcher => watcher.catchUp(upTo)))
    await Promise.all(watchers.map(watcher => watcher.stop()))
    expect(recorder.check({ upTo })).toEqual([])
    expect(refusals).toEqual([])
    expect(watchers.map(({ expired }) => expired)).toEqual(watchers.map(() => 0))
    await eventually(() =>
      expect(new Map(informer.list().map(({ metadata }) => [metadata.name, metadata.version]))).toEqual(
        new Map(list.objects.map(({ metadata }) => [metadata.name, metadata.version])),
      ),
    )
    await informer.stop()
    transport.close()
  })
})
