import { once } from 'node:events'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { WebSocket } from 'ws'
import { type Answer, type Api, type Collection, listOf, objectOf, refusalOf } from './support/api.ts'
import { fieldsOf, textOf } from './support/json.ts'
import { itemsOf } from './support/kinds.ts'
import { isInitialEnd, refusedWatch, Watch } from './support/watch.ts'
import { type SharedWorld, startSharedWorld, stores } from './support/worlds.ts'

/**
 * The versions of reads, which are not recorded. Unless `docs/reference/kubernetes-clients.md` has a difference, the
 * expectations are those of the sources of kube-apiserver 1.34: `ValidateListOptions`, `SetListOptionsDefaults`, and
 * `Watch`, `Get` and `GetList` of its cacher.
 */

const notOlder = 'resourceVersionMatch=NotOlderThan'
const exact = 'resourceVersionMatch=Exact'
const far = '99999999999999999999999999'

describe.each(stores)('as in Kubernetes, on the %s store,', store => {
  let world: SharedWorld
  let api: Api
  let items: Collection
  /** The version of a list before `b` exists. */
  let first: string

  beforeAll(async () => {
    world = await startSharedWorld(store, ['items-plugin'])
    api = world.api
    items = itemsOf(api)
    await items.create('a', {})
    // States are kept that lists were served from.
    first = (await items.list()).version
    await items.create('b', {})
    // From now on the cache has both.
    expect((await items.list({ sort: 'metadata.name' })).names).toEqual(['a', 'b'])
  })
  afterAll(() => world?.end())

  const get = (path: string, query: string) => api.get(`${path}?${query.replaceAll('FIRST', first)}`)

  function isTooLarge(answer: Answer): void {
    const { causes, details } = refusalOf(answer, 504)
    expect(causes).toMatchObject([{ reason: 'ResourceVersionTooLarge' }])
    expect([details.retryAfterSeconds, answer.headers.get('retry-after')]).toEqual([1, '1'])
  }

  it.each([
    ['', ['a', 'b']],
    ['resourceVersion=', ['a', 'b']],
    ['resourceVersion=0', ['a', 'b']],
    [`resourceVersion=0&${notOlder}`, ['a', 'b']],
    ['resourceVersion=0&limit=5', ['a', 'b']],
    ['resourceVersion=FIRST', ['a', 'b']],
    [`resourceVersion=FIRST&${notOlder}`, ['a', 'b']],
    [`resourceVersion=FIRST&${notOlder}&limit=5`, ['a', 'b']],
    // Without a match, a limit asks for exactly that version.
    ['resourceVersion=FIRST&limit=5', ['a']],
    [`resourceVersion=FIRST&${exact}`, ['a']],
    [`resourceVersion=FIRST&${exact}&limit=5`, ['a']],
  ])('a list with %j has %j', async (query, names) => {
    expect(listOf(await get(items.path, query)).names.toSorted()).toEqual(names)
  })

  it.each([
    exact,
    notOlder,
    `resourceVersion=&${notOlder}`,
    `resourceVersion=0&${exact}`,
    'resourceVersion=FIRST&resourceVersionMatch=exact',
    'resourceVersion=-1',
    'resourceVersion=0x1',
    'sendInitialEvents=false',
  ])('a list with %j is refused', async query => {
    refusalOf(await get(items.path, query), 400)
  })

  it('a list that is not older than a version of the future is refused', async () => {
    isTooLarge(await get(items.path, `resourceVersion=${far}`))
    isTooLarge(await get(items.path, `resourceVersion=${far}&${notOlder}&limit=5`))
  })

  it.each([
    '',
    'resourceVersion=',
    'resourceVersion=0',
    'version=0',
    'resourceVersion=FIRST',
    'version=FIRST&resourceVersion=FIRST',
    // Only lists know it.
    `resourceVersion=FIRST&${exact}`,
  ])('a get with %j returns the object', async query => {
    expect(objectOf(await get(items.at('b'), query)).metadata.name).toBe('b')
  })

  it.each(['resourceVersion=x', 'version=-1', 'resourceVersion=1.0', 'version=1&resourceVersion=2'])(
    'a get with %j is refused, whether or not the object exists',
    async query => {
      for (const name of ['a', 'missing']) refusalOf(await get(items.at(name), query), 400)
    },
  )

  it('a get that is not older than a version of the future is refused, whether or not the object exists', async () => {
    const { version } = await items.list()
    for (const future of [String(Number(version) + 1000), far])
      for (const name of ['a', 'missing']) isTooLarge(await get(items.at(name), `resourceVersion=${future}`))
  })

  it.each([
    ['', ['ADDED a', 'ADDED b', 'BOOKMARK', 'ADDED c']],
    ['resourceVersion=0', ['ADDED a', 'ADDED b', 'BOOKMARK', 'ADDED c']],
    [`sendInitialEvents=true&${notOlder}`, ['ADDED a', 'ADDED b', 'BOOKMARK', 'ADDED c']],
    [`sendInitialEvents=true&${notOlder}&resourceVersion=0`, ['ADDED a', 'ADDED b', 'BOOKMARK', 'ADDED c']],
    [
      `sendInitialEvents=true&${notOlder}&resourceVersion=FIRST`,
      ['ADDED a', 'ADDED b', 'BOOKMARK', 'ADDED c'],
    ],
    ['resourceVersion=FIRST', ['ADDED b', 'ADDED c']],
    [`sendInitialEvents=false&${notOlder}`, ['ADDED c']],
    [`sendInitialEvents=false&${notOlder}&resourceVersion=0`, ['ADDED c']],
    [`sendInitialEvents=false&${notOlder}&resourceVersion=FIRST`, ['ADDED b', 'ADDED c']],
  ])('a watch with %j begins with %j', async (query, story) => {
    const path = `${items.path}?${query.replaceAll('FIRST', first)}`
    const watch = await Watch.open(world.server.url, `${path}&allowWatchBookmarks=true`)
    try {
      const made = await items.create('c', {})
      await watch.reaches(made.metadata.version)
      const told = watch.events
        .filter(event => event.type !== 'BOOKMARK' || isInitialEnd(event))
        // Other tests have created and deleted the same name.
        .filter(({ name, version }) => name !== 'c' || version === made.metadata.version)
      expect(told.map(({ type, name }) => (name === '' ? type : `${type} ${name}`))).toEqual(story)
    } finally {
      await watch.cut()
      objectOf(await api.delete(items.at('c')))
    }
  })

  it('a watch, and a list of exactly that version, are 410 for a version of the future', async () => {
    refusalOf(await get(items.path, `resourceVersion=${far}&${exact}`), 410)
    refusalOf(await get(items.path, `resourceVersion=${far}&limit=5`), 410)
    const watch = await Watch.open(world.server.url, `${items.path}?resourceVersion=${far}`)
    expect((await watch.closed).code).toBe(4410)
    expect(watch.events.map(({ type, raw }) => [type, fieldsOf(raw.object).code])).toEqual([['ERROR', 410]])
  })

  it('initial events that are not older than a version of the future are refused', async () => {
    const query = `sendInitialEvents=true&${notOlder}&resourceVersion=${far}`
    isTooLarge(await get(items.path, `watch=true&${query}`))
    isTooLarge(await refusedWatch(world.server.url, `${items.path}?${query}`))
  })

  it.each([
    [[]],
    [['base64.binary.k8s.io']],
    [['binary.k8s.io']],
    [['base64.binary.k8s.io', 'binary.k8s.io']],
  ])(
    'a WebSocket with the subprotocols %j selects the first, and sends JSON in text frames',
    async protocols => {
      const socket = new WebSocket(`${world.server.url.replace('http', 'ws')}${items.path}`, protocols)
      try {
        const [data, isBinary] = await once(socket, 'message')
        expect([socket.protocol, isBinary]).toEqual([protocols[0] ?? '', false])
        expect(JSON.parse(String(data))).toMatchObject({ type: 'ADDED', object: { metadata: { name: 'a' } } })
      } finally {
        socket.terminate()
      }
    },
  )

  // The embedded store compacts after many changes only.
  if (store === 'embedded') return

  it('a watch from a compacted version is one ERROR with a Status', async () => {
    const { version } = await items.list()
    const body = JSON.stringify({ revision: version, physical: true })
    const compaction = await fetch(`${world.etcd?.endpoint}/v3/kv/compaction`, { method: 'POST', body })
    expect(compaction.status).toBe(200)
    // The cache of the old process still has the changes.
    await world.server.restart()
    await expect.poll(async () => (await api.get(items.path)).status, { timeout: 60_000 }).toBe(200)
    const response = await fetch(`${world.server.url}${items.path}?watch=true&resourceVersion=${first}`)
    const [line = '', ...more] = (await response.text()).trimEnd().split('\n')
    expect([response.status, more]).toEqual([200, []])
    const { type, object } = fieldsOf(JSON.parse(line))
    const { message, ...status } = fieldsOf(object)
    expect([type, status]).toEqual([
      'ERROR',
      { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure', reason: 'Expired', code: 410 },
    ])
    expect(textOf(message)).toContain(first)
  })
})
