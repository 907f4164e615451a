import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type Answer, type Api, Collection, listOf, objectOf, refusalOf } from './support/api.ts'
import { arrayOf, type Fields, fieldsOf, textOf } from './support/json.ts'
import { Multiplexed } from './support/multiplex.ts'
import { type Connection, transports } from './support/transports.ts'
import { eventually, type SharedWorld, startSharedWorld, stores } from './support/worlds.ts'

/** What kubectl sends. */
const table =
  'application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json'
/** What metadata clients of client-go and kube-rs send. */
const oneMetadata =
  'application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json'
const listMetadata =
  'application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json'
const onlyMetadata = 'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1'
const onlyMetadataList = 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1'

const columns = ['Name', 'Port', 'Crew', 'Ready', 'Sails', 'Draught', 'Launched', 'Age']
const age = expect.stringMatching(/^\d+s$/)
const metadataOnly = { kind: 'PartialObjectMetadata', apiVersion: 'meta.k8s.io/v1' }

function accepting(accept: string) {
  return { headers: { accept } }
}

function okOf(answer: Answer, status = 200): Fields {
  if (answer.status !== status) throw new Error(`${answer.status}, want ${status}: ${answer.text}`)
  expect(answer.headers.get('content-type')).toBe('application/json')
  return fieldsOf(answer.body)
}

function rowsOf(value: unknown): Fields[] {
  return arrayOf(fieldsOf(value).rows).map(fieldsOf)
}

function namesIn(value: unknown): unknown[] {
  return rowsOf(value).map(({ cells }) => arrayOf(cells)[0])
}

function columnsOf(value: unknown): unknown {
  const { columnDefinitions } = fieldsOf(value)
  return columnDefinitions === null ? null : arrayOf(columnDefinitions).map(column => fieldsOf(column).name)
}

describe.each(stores)('the views of Kubernetes clients, on the %s store', store => {
  let world: SharedWorld
  let api: Api
  let ships: Collection
  let buoys: Collection

  beforeAll(async () => {
    world = await startSharedWorld(store, ['ships-plugin'])
    api = world.api
    ships = new Collection(api, 'fleet.example.com/v1', 'Ship', 'ships')
    buoys = new Collection(api, 'fleet.example.com/v1', 'Buoy', 'buoys')
  })
  afterAll(() => world?.end())
  afterEach(async () => {
    await ships.clear()
    await buoys.clear()
  })

  describe('a Table', () => {
    it('of a list has the printer columns, a row for each object, and the metadata and page of the list', async () => {
      await ships.create('beagle', {
        port: 'Plymouth',
        crew: 74,
        sails: true,
        draught: 3.8,
        launched: '1820-05-11T00:00:00Z',
      })
      const status = {
        conditions: [
          {
            type: 'Ready',
            status: 'True',
            reason: 'Rigged',
            message: '',
            lastTransitionTime: '2026-01-01T00:00:00Z',
          },
        ],
      }
      objectOf(await api.mergePatch(`${ships.at('beagle')}/status`, { status }))
      await ships.create('fram.of.oslo', {})
      // Again if the server itself has written between the two lists, whose resource versions then differ.
      const { plain, body } = await eventually(async () => {
        const plain = listOf(await api.get(`${ships.path}?page=1&size=5&sort=metadata.name`))
        const body = okOf(await api.get(`${ships.path}?page=1&size=5&sort=metadata.name`, accepting(table)))
        const { rows: _rows, columnDefinitions: _columns, ...rest } = body
        const { items: _items, ...page } = plain.raw
        expect(rest).toEqual({ ...page, kind: 'Table', apiVersion: 'meta.k8s.io/v1' })
        return { plain, body }
      })
      const { rows, columnDefinitions } = body
      expect(arrayOf(columnDefinitions).slice(0, 3)).toEqual([
        { name: 'Name', type: 'string', format: 'name', description: 'The name of the object.', priority: 0 },
        { name: 'Port', type: 'string', format: '', description: 'Where it belongs.', priority: 0 },
        {
          name: 'Crew',
          type: 'integer',
          format: 'int32',
          description: 'The value at .spec.crew.',
          priority: 0,
        },
      ])
      expect(columnsOf(body)).toEqual(columns)
      const [beagle, fram] = plain.items
      expect(rows).toEqual([
        {
          cells: ['beagle', 'Plymouth', 74, 'True', true, 3.8, expect.stringMatching(/^\d{3}y$/), age],
          object: { ...metadataOnly, metadata: beagle?.raw.metadata },
        },
        {
          cells: ['fram.of.oslo', null, null, null, null, null, null, age],
          object: { ...metadataOnly, metadata: fram?.raw.metadata },
        },
      ])
    })

    it('of a kind without columns has name and age', async () => {
      await buoys.create('one', { light: 'red' })
      const body = okOf(await api.get(buoys.path, accepting(table)))
      expect(columnsOf(body)).toEqual(['Name', 'Age'])
      expect(rowsOf(body).map(({ cells }) => cells)).toEqual([['one', age]])
    })

    it('of an empty list has columns and no rows', async () => {
      const body = okOf(await api.get(ships.path, accepting(table)))
      expect([columnsOf(body), body.rows]).toEqual([columns, []])
    })

    it('follows limit and continue through one state', async () => {
      for (const name of ['a', 'b', 'c']) await buoys.create(name, {})
      const first = okOf(await api.get(`${buoys.path}?limit=2`, accepting(table)))
      const { continue: token, remainingItemCount } = fieldsOf(first.metadata)
      expect([namesIn(first), remainingItemCount]).toEqual([['a', 'b'], 1])
      await buoys.create('d', {})
      const rest = okOf(await api.get(`${buoys.path}?limit=2&continue=${textOf(token)}`, accepting(table)))
      expect([namesIn(rest), fieldsOf(rest.metadata).continue]).toEqual([['c'], undefined])
      expect(fieldsOf(rest.metadata).resourceVersion).toBe(fieldsOf(first.metadata).resourceVersion)
    })

    it.each([
      ['None', () => null],
      ['Metadata', (raw: Fields) => ({ ...metadataOnly, metadata: raw.metadata })],
      ['', (raw: Fields) => ({ ...metadataOnly, metadata: raw.metadata })],
      ['Object', (raw: Fields) => raw],
    ])('with includeObject=%s has rows with as much of the object', async (includeObject, expected) => {
      const { raw } = await ships.create('beagle', { port: 'Plymouth "Sound" {' })
      const query = `includeObject=${includeObject}`
      const list = okOf(await api.get(`${ships.path}?${query}`, accepting(table)))
      const one = okOf(await api.get(`${ships.at('beagle')}?${query}`, accepting(table)))
      for (const body of [list, one])
        expect(rowsOf(body).map(({ object }) => object)).toEqual([expected(raw)])
    })

    it('with an unknown includeObject is 400, and only for Tables', async () => {
      const path = `${ships.path}?includeObject=Some`
      expect(refusalOf(await api.get(path, accepting(table)), 400).message).toContain(
        'None, Metadata, Object',
      )
      okOf(await api.get(path))
    })

    it('of one object has its version, in the field that metav1.Table has', async () => {
      const { metadata } = await ships.create('beagle', { port: 'Plymouth' })
      const body = okOf(await api.get(ships.at('beagle'), accepting(table)))
      expect(body.metadata).toEqual({ resourceVersion: metadata.version })
      expect(namesIn(body)).toEqual(['beagle'])
    })

    it('can be in version v1beta1 of its group, throughout', async () => {
      await buoys.create('one', {})
      const accept = 'application/json;as=Table;v=v1beta1;g=meta.k8s.io'
      const body = okOf(await api.get(buoys.path, accepting(accept)))
      expect(body.apiVersion).toBe('meta.k8s.io/v1beta1')
      expect(rowsOf(body)).toMatchObject([{ object: { apiVersion: 'meta.k8s.io/v1beta1' } }])
    })

    it('of another version has the columns of that version', async () => {
      await ships.create('beagle', { port: 'Plymouth' })
      const body = okOf(
        await api.get('/apis/fleet.example.com/v1beta1/ships?includeObject=Object', accepting(table)),
      )
      expect(columnsOf(body)).toEqual(['Name', 'Harbour'])
      expect(rowsOf(body)).toMatchObject([
        {
          cells: ['beagle', 'Plymouth'],
          object: { apiVersion: 'fleet.example.com/v1beta1', spec: { harbour: 'Plymouth' } },
        },
      ])
    })

    it('has the objects of every write', async () => {
      const created = okOf(await api.post(ships.path, ships.body('a', { port: 'P' }), accepting(table)), 201)
      const replaced = okOf(await api.put(ships.at('a'), ships.body('a', { port: 'Q' }), accepting(table)))
      const patched = okOf(await api.mergePatch(ships.at('a'), { spec: { port: 'R' } }, accepting(table)))
      const deleted = okOf(await api.delete(ships.at('a'), undefined, accepting(table)))
      expect(
        [created, replaced, patched, deleted].map(body => rowsOf(body).map(({ cells }) => arrayOf(cells)[1])),
      ).toEqual([['P'], ['Q'], ['R'], ['R']])
      await ships.create('b', {})
      expect(namesIn(okOf(await api.delete(ships.path, undefined, accepting(table))))).toEqual(['b'])
    })
  })

  describe('PartialObjectMetadata', () => {
    it('of a list has the metadata of each object', async () => {
      const { raw } = await ships.create('beagle', { port: 'P' }, { annotations: { note: 'a } " \\ {' } })
      for (const accept of [listMetadata, onlyMetadataList]) {
        const body = okOf(await api.get(ships.path, accepting(accept)))
        expect(body).toMatchObject({
          kind: 'PartialObjectMetadataList',
          apiVersion: 'meta.k8s.io/v1',
          total: 1,
        })
        expect(body.items).toEqual([{ ...metadataOnly, metadata: raw.metadata }])
      }
    })

    it('is the response to reads and writes of one object', async () => {
      const { raw } = await ships.create('beagle', { port: 'P' })
      for (const accept of [oneMetadata, onlyMetadata])
        expect(okOf(await api.get(ships.at('beagle'), accepting(accept)))).toEqual({
          ...metadataOnly,
          metadata: raw.metadata,
        })
      // kube-rs sends nothing else, on a patch too.
      const patched = okOf(
        await api.mergePatch(
          ships.at('beagle'),
          { metadata: { labels: { 'x.com/a': 'b' } } },
          accepting(onlyMetadata),
        ),
      )
      expect(patched).toEqual({ ...metadataOnly, metadata: (await ships.read('beagle')).raw.metadata })
      expect(Object.keys(patched)).not.toContain('spec')
    })

    it.each([
      ['a list', () => ships.path, onlyMetadata],
      ['an object', () => ships.at('beagle'), onlyMetadataList],
    ])('in the form for another response than %s is 406', async (_what, path, accept) => {
      await ships.create('beagle', {})
      refusalOf(await api.get(path(), accepting(accept)), 406)
      // The next clause counts.
      expect(okOf(await api.get(path(), accepting(`${accept}, application/json`))).apiVersion).toBe(
        'fleet.example.com/v1',
      )
    })
  })

  it.each([
    ['application/json;as=Table;v=v2;g=meta.k8s.io', 406],
    ['application/json;as=Table;v=v1;g=example.com', 406],
    ['application/json;as=Chart;v=v1;g=meta.k8s.io', 406],
    ['application/json;as=Table', 406],
    ['application/yaml;as=Table;v=v1;g=meta.k8s.io', 406],
    ['application/json;as=Table;v=v2;g=meta.k8s.io, application/json;as=Table;v=v1;g=meta.k8s.io', 'Table'],
    ['application/json;as=Chart;v=v1;g=meta.k8s.io, */*', 'BuoyList'],
    ['application/json;q=0.5, application/json;as=Table;v=v1;g=meta.k8s.io;q=0.9', 'Table'],
    ['application/json, application/json;as=Table;v=v1;g=meta.k8s.io', 'BuoyList'],
    ['application/json; g="meta.k8s.io"; v=v1; as=Table', 'Table'],
  ])('the first clause of Accept that can be served counts: %s', async (accept, expected) => {
    const answer = await api.get(buoys.path, accepting(accept))
    if (typeof expected === 'number') expect(refusalOf(answer, expected).message).toContain('Table')
    else expect(okOf(answer).kind).toBe(expected)
  })

  it('errors are the same Status in every view', async () => {
    for (const accept of [table, onlyMetadata]) {
      refusalOf(await api.get(ships.at('nobody'), accepting(accept)), 404, 'NotFound')
      refusalOf(await api.post(ships.path, ships.body('x', { crew: -1 }), accepting(accept)), 422, 'Invalid')
    }
  })

  describe.each(Object.keys(transports))('a watch over %s', name => {
    const transport = { ...transports }[name] ?? transports.lines
    const type = name === 'events' ? 'text/event-stream' : 'application/json'
    const told: Fields[] = []
    let connection: Connection | undefined

    function watch(
      as: string,
      query = '',
      start: 'present' | Parameters<typeof transport>[0]['start'] = 'present',
    ): void {
      connection = transport({
        url: world.server.url,
        address: `${ships.path}?allowWatchBookmarks=true${query}`,
        start,
        headers: { accept: `${type};as=${as};v=v1;g=meta.k8s.io` },
        onEvent: text => told.push(fieldsOf(JSON.parse(text))),
      })
    }
    const objects = () => told.map(({ object }) => fieldsOf(object))
    const has = (count: number) => eventually(() => expect(told.length).toBeGreaterThanOrEqual(count))

    afterEach(async () => {
      connection?.cut()
      await connection?.ended
      told.length = 0
    })

    it('sends Tables, with columns in the first event only', async () => {
      await ships.create('a', { port: 'P' })
      await ships.create('b', { port: 'Q' })
      watch('Table')
      await has(3)
      await api.mergePatch(ships.at('a'), { spec: { port: 'R' } })
      await api.delete(ships.at('b'))
      await has(5)
      expect(told.map(({ type }) => type)).toEqual(['ADDED', 'ADDED', 'BOOKMARK', 'MODIFIED', 'DELETED'])
      expect(objects().map(columnsOf)).toEqual([columns, null, null, null, null])
      expect(objects().map(({ kind }) => kind)).toEqual(Array(5).fill('Table'))
      const changes = objects().filter((_, at) => at !== 2)
      expect(changes.map(object => arrayOf(rowsOf(object)[0]?.cells).slice(0, 2))).toEqual([
        ['a', 'P'],
        ['b', 'Q'],
        ['a', 'R'],
        ['b', 'Q'],
      ])
      const [bookmark] = rowsOf(objects()[2])
      expect(bookmark?.object).toMatchObject({
        ...metadataOnly,
        metadata: { annotations: { 'k8s.io/initial-events-end': 'true' } },
      })
      for (const object of objects()) {
        const { metadata } = fieldsOf(rowsOf(object)[0]?.object)
        expect(object.metadata).toEqual({ resourceVersion: fieldsOf(metadata).resourceVersion })
      }
    })

    it('from a version begins with columns too', async () => {
      const list = await ships.list()
      watch('Table', `&resourceVersion=${list.version}`)
      await ships.create('a', {})
      await has(1)
      await ships.create('b', {})
      await has(2)
      expect(objects().map(columnsOf)).toEqual([columns, null])
    })

    it('with includeObject has rows with as much of the object', async () => {
      await ships.create('a', { port: 'P' })
      watch('Table', '&includeObject=Object')
      await has(1)
      expect(rowsOf(objects()[0])[0]?.object).toMatchObject({ kind: 'Ship', spec: { port: 'P' } })
    })

    it('sends PartialObjectMetadata, and bookmarks with their annotation', async () => {
      const { raw } = await ships.create('a', { port: 'P' })
      watch('PartialObjectMetadata')
      await has(2)
      expect(told).toMatchObject([
        { type: 'ADDED', object: { ...metadataOnly, metadata: raw.metadata } },
        {
          type: 'BOOKMARK',
          object: { ...metadataOnly, metadata: { annotations: { 'k8s.io/initial-events-end': 'true' } } },
        },
      ])
      expect(objects().flatMap(object => Object.keys(object))).not.toContain('spec')
    })

    it('sends an expired version as a Status', async () => {
      watch('Table', '&resourceVersion=999999999')
      await has(1)
      expect(told).toMatchObject([{ type: 'ERROR', object: { kind: 'Status', code: 410 } }])
    })
  })

  it('many Table watches of one kind each begin with columns, and get the same events', async () => {
    const heard = [0, 1, 2].map(() => [] as Fields[])
    const connections = heard.map(events =>
      transports.lines({
        url: world.server.url,
        address: `${buoys.path}?resourceVersion=0`,
        start: 'present',
        headers: { accept: table },
        onEvent: text => events.push(fieldsOf(JSON.parse(text))),
      }),
    )
    await eventually(() => expect(heard.map(events => events.length)).toEqual([1, 1, 1]))
    await buoys.create('a', {})
    await buoys.create('b', {})
    await eventually(() => expect(heard.map(events => events.length)).toEqual([3, 3, 3]))
    for (const events of heard) {
      expect(events.map(({ object }) => columnsOf(object))).toEqual([['Name', 'Age'], null, null])
      expect(events.map(({ object }) => namesIn(object)[0])).toEqual(['', 'a', 'b'])
    }
    for (const connection of connections) connection.cut()
    await Promise.all(connections.map(({ ended }) => ended))
  })

  it('many watches on one WebSocket have the view of its handshake', async () => {
    await buoys.create('a', {})
    const socket = await Multiplexed.open(world.server.url, '/apis', { accept: table })
    socket.subscribe('buoys', buoys.path)
    socket.subscribe('ships', ships.path)
    await Promise.all([socket.synced('buoys'), socket.synced('ships')])
    await ships.create('b', {})
    await socket.until(() => socket.of('ships').length === 2, 'the ship')
    const seen = (id: string) => socket.of(id).map(({ raw }) => columnsOf(raw.object))
    expect(seen('buoys')).toEqual([['Name', 'Age'], null])
    expect(seen('ships')).toEqual([columns, null])
    await socket.close()
  })
})
