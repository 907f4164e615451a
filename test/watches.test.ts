import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type Api, type Collection, objectOf, readStatus, refusalOf } from './support/api.ts'
import { fieldsOf } from './support/json.ts'
import { itemsOf } from './support/kinds.ts'
import { isInitialEnd, objectIn, refusedWatch, Watch } from './support/watch.ts'
import { bothStores, createAll, type SharedWorld, startSharedWorld } from './support/worlds.ts'

describe.each(bothStores)('watches over WebSocket on the %s store', store => {
  let world: SharedWorld
  let api: Api
  let items: Collection
  const open: Watch[] = []

  beforeAll(async () => {
    world = await startSharedWorld(store, ['items-plugin'])
    api = world.api
    items = itemsOf(api)
  })
  afterAll(() => world?.end())
  beforeEach(async () => {
    await Promise.all(open.splice(0).map(each => each.cut()))
    await items.clear()
  })

  async function watch(query = '', path = items.path): Promise<Watch> {
    const opened = await Watch.open(world.server.url, `${path}${query === '' ? '' : `?${query}`}`)
    open.push(opened)
    return opened
  }

  const patch = async (name: string, spec: object) => objectOf(await api.mergePatch(items.at(name), { spec }))
  const remove = async (name: string) => objectOf(await api.delete(items.at(name)))

  describe('from the current state', () => {
    it.each(['', 'version=0', 'resourceVersion=0', 'version='])(
      'begin (%s) with every object as ADDED, ascending by name, then the initial-events-end bookmark, then the changes',
      async query => {
        await createAll(
          items,
          ['m', 'z', 'a', 'k-1', 'k'].map(name => ({ name, spec: { count: 1 } })),
        )
        const present = await items.list({ sort: 'metadata.name' })
        const watching = await watch(query)
        const version = await watching.synced()
        expect(watching.story).toEqual(['ADDED a', 'ADDED k', 'ADDED k-1', 'ADDED m', 'ADDED z'])
        expect(watching.changes.map(event => fieldsOf(event.raw.object))).toEqual(
          present.items.map(({ raw }) => raw),
        )
        expect(watching.events.findIndex(isInitialEnd)).toBe(5)
        expect(Number(version)).toBeGreaterThanOrEqual(Number(present.version))
        const changed = await patch('k', { count: 2 })
        await watching.reaches(changed.metadata.version)
        expect(watching.story.slice(5)).toEqual(['MODIFIED k'])
      },
    )

    it('of an empty collection begin with the bookmark', async () => {
      const watching = await watch()
      await watching.synced()
      expect(watching.events).toHaveLength(1)
      const [bookmark] = watching.events
      expect(fieldsOf(bookmark?.raw.object)).toEqual({
        apiVersion: 'items.example.com/v1',
        kind: 'Item',
        metadata: {
          version: bookmark?.version,
          resourceVersion: bookmark?.version,
          annotations: { 'k8s.io/initial-events-end': 'true' },
        },
      })
    })

    it('lose and repeat no event during writes', async () => {
      await createAll(
        items,
        Array.from({ length: 40 }, (_, n) => ({ name: `o-${n}`, spec: { count: 0 } })),
      )
      let stop = false
      const written: string[] = []
      const writers = [0, 1].map(async writer => {
        for (let n = 0; !stop; n++) {
          const answer = await patch(`o-${(n * 2 + writer) % 40}`, { op: `${writer}-${n}` })
          written.push(answer.metadata.version)
        }
      })
      const watches: Watch[] = []
      for (let n = 0; n < 12; n++) {
        const opened = await watch()
        await opened.synced()
        watches.push(opened)
      }
      stop = true
      await Promise.all(writers)
      const last = Math.max(...written.map(Number))
      for (const each of watches) {
        await each.reaches(String(last))
        const start = Number(await each.synced())
        const live = each.changes.slice(40).map(({ version }) => Number(version))
        const expected = written.map(Number).filter(version => version > start)
        expect(live).toEqual(expected.sort((a, b) => a - b))
        // The initial events are the state at the bookmark.
        for (const { version } of each.changes.slice(0, 40))
          expect(Number(version)).toBeLessThanOrEqual(start)
      }
    })
  })

  describe('from a version', () => {
    it.each(['version', 'resourceVersion'])(
      'send every change after it (%s), once and in order',
      async parameter => {
        const first = await items.create('a', { count: 1 })
        await items.create('b', { count: 1 })
        await patch('a', { count: 2 })
        await remove('a')
        const last = await items.create('a', { count: 3 })
        const watching = await watch(`${parameter}=${first.metadata.version}`)
        await watching.reaches(last.metadata.version)
        expect(watching.story).toEqual(['ADDED b', 'MODIFIED a', 'DELETED a', 'ADDED a'])
        const versions = watching.changes.map(({ version }) => Number(version))
        expect(versions).toEqual([...new Set(versions)].sort((a, b) => a - b))
      },
    )

    it('resume from any version of another watch with exactly the later events', async () => {
      const whole = await watch()
      const start = await whole.synced()
      for (let n = 0; n < 6; n++) await items.create(`o-${n}`, { count: n })
      for (let n = 0; n < 6; n++) await (n % 2 === 0 ? remove(`o-${n}`) : patch(`o-${n}`, { count: n + 50 }))
      const last = (await items.list()).items.reduce(
        (max, item) => Math.max(max, Number(item.metadata.version)),
        0,
      )
      await whole.reaches(String(last))
      const changes = whole.changes.map(({ raw }) => raw)
      expect(changes).toHaveLength(12)
      for (const [n, from] of [start, ...whole.changes.map(({ version }) => version)].entries()) {
        if (n === changes.length) continue
        const resumed = await watch(`version=${from}`)
        await resumed.reaches(String(last))
        expect(resumed.changes.map(({ raw }) => raw)).toEqual(changes.slice(n))
      }
    })

    it('resume from the version of a list', async () => {
      await items.create('a', {})
      const { version } = await items.list()
      const made = await items.create('b', {})
      const watching = await watch(`version=${version}`)
      await watching.reaches(made.metadata.version)
      expect(watching.story).toEqual(['ADDED b'])
    })

    it('with sendInitialEvents begin with the current state', async () => {
      const made = await items.create('a', {})
      const watching = await watch(
        `version=${made.metadata.version}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan`,
      )
      await watching.synced()
      expect(watching.story).toEqual(['ADDED a'])
    })

    it('send no bookmarks with allowWatchBookmarks=false', async () => {
      await items.create('a', {})
      const watching = await watch('allowWatchBookmarks=false')
      await watching.until(({ story }) => story.includes('ADDED a'))
      const made = await items.create('b', {})
      await watching.reaches(made.metadata.version)
      expect(watching.events.map(({ type }) => type)).toEqual(['ADDED', 'ADDED'])
    })

    it.each([
      ['the future', (present: number) => present + 1_000_000],
      ['beyond every number', () => '99999999999999999999999999'],
    ])(
      'end with one ERROR, a 410 Status, and close code 4410 for a version of %s',
      async (_what, version) => {
        const made = await items.create('a', {})
        const watching = await watch(`version=${version(Number(made.metadata.version))}`)
        expect((await watching.closed).code).toBe(4410)
        expect(watching.events.map(({ type }) => type)).toEqual(['ERROR'])
        expect(readStatus(watching.events[0]?.raw.object, 410).reason).toBe('Expired')
      },
    )

    it('resume from the version of a bookmark', async () => {
      const watching = await watch()
      const version = await watching.synced()
      await watching.close()
      const made = await items.create('a', {})
      const resumed = await watch(`version=${version}`)
      await resumed.reaches(made.metadata.version)
      expect(resumed.story).toEqual(['ADDED a'])
    })
  })

  describe('with selectors', () => {
    it.each([
      ['fieldSelector=spec.tags%3Dred', { tags: ['red'] }, { tags: ['blue'] }],
      ['fieldSelector=spec.rank%20in%20(a,b)', { rank: 'a' }, { rank: 'c' }],
      ['fieldSelector=spec.rank!%3Da', { rank: 'b' }, { rank: 'a' }],
      ['fieldSelector=spec.rank%3Cb', { rank: 'a' }, { rank: 'b' }],
      ['fieldSelector=spec.rank%3E=b', { rank: 'b' }, { rank: 'a' }],
      ['fieldSelector=spec.rank%3E=b,spec.rank%3Cd', { rank: 'b' }, { rank: 'd' }],
      ['fieldSelector=spec.tags%3Em', { tags: ['a', 'z'] }, { tags: ['a'] }],
      ['fieldSelector=spec.tags%3Ea,spec.tags%3Cb', { tags: ['a', 'c'] }, { tags: ['a'] }],
    ])('%s turn changes into ADDED and DELETED', async (query, matching, other) => {
      await items.create('there', { count: 0, ...matching })
      await items.create('elsewhere', { count: 0, ...other })
      const watching = await watch(query)
      await watching.synced()
      expect(watching.story).toEqual(['ADDED there'])
      await items.create('x', { count: 1, ...other })
      const came = await patch('x', { count: 2, ...matching })
      const stayed = await patch('x', { count: 3 })
      const left = await patch('x', { count: 4, ...other })
      await patch('x', { count: 5 })
      const back = await patch('x', { count: 6, ...matching })
      const gone = await remove('x')
      await watching.reaches(gone.metadata.version)
      const events = watching.changes.slice(1)
      expect(events.map(({ type, version }) => [type, version])).toEqual([
        ['ADDED', came.metadata.version],
        ['MODIFIED', stayed.metadata.version],
        ['DELETED', left.metadata.version],
        ['ADDED', back.metadata.version],
        ['DELETED', gone.metadata.version],
      ])
      // The last state that matched, with the version of the change.
      expect(objectIn(events[2]).spec).toEqual({ ...stayed.spec })
      expect(objectIn(events[4]).spec).toEqual({ ...back.spec })
    })

    it('by order end when the object loses its value, and begin when it has one again', async () => {
      const watching = await watch('fieldSelector=spec.rank%3E=b')
      await watching.synced()
      await items.create('x', { rank: 'b' })
      await patch('x', { rank: null })
      await patch('x', { count: 1 })
      const back = await patch('x', { rank: 'c' })
      await watching.reaches(back.metadata.version)
      expect(watching.story).toEqual(['ADDED x', 'DELETED x', 'ADDED x'])
    })

    it('by label, and by both at once', async () => {
      const watching = await watch('labelSelector=x.com/k%3Dv,!x.com/off&fieldSelector=spec.rank%3Da')
      await watching.synced()
      const label = async (labels: object) =>
        objectOf(await api.mergePatch(items.at('x'), { metadata: { labels } }))
      await items.create('x', { rank: 'a' })
      await label({ 'x.com/k': 'v' })
      await label({ 'x.com/off': '' })
      await label({ 'x.com/off': null })
      await patch('x', { rank: 'b' })
      const last = await items.create('y', { rank: 'a' }, { labels: { 'x.com/k': 'v' } })
      await watching.reaches(last.metadata.version)
      expect(watching.story).toEqual(['ADDED x', 'DELETED x', 'ADDED x', 'DELETED x', 'ADDED y'])
    })

    it('resume with the same rules', async () => {
      const made = await items.create('x', { rank: 'a' })
      await patch('x', { rank: 'b' })
      await patch('x', { rank: 'c' })
      const last = await patch('x', { rank: 'a', count: 1 })
      const watching = await watch(`version=${made.metadata.version}&fieldSelector=spec.rank%3Da`)
      await watching.reaches(last.metadata.version)
      expect(watching.story).toEqual(['DELETED x', 'ADDED x'])
    })
  })

  describe('of one name', () => {
    it('may begin before the object exists, and report its creation, change, deletion and recreation', async () => {
      const watching = await watch('', items.at('later'))
      await watching.synced()
      expect(watching.changes).toEqual([])
      await items.create('other', {})
      await items.create('later', { count: 1 })
      await patch('later', { count: 2 })
      await remove('later')
      const last = await items.create('later', { count: 3 })
      await watching.reaches(last.metadata.version)
      expect(watching.story).toEqual(['ADDED later', 'MODIFIED later', 'DELETED later', 'ADDED later'])
    })

    it('begin with the object if it exists', async () => {
      await items.create('there', { count: 1 })
      await items.create('other', {})
      const watching = await watch('', items.at('there'))
      await watching.synced()
      expect(watching.story).toEqual(['ADDED there'])
    })
  })

  describe('of deletions', () => {
    it('have the last state with the version of the deletion', async () => {
      await items.create('a', { count: 1, tags: ['x'] }, { labels: { 'x.com/a': 'b' } })
      const last = await patch('a', { count: 2 })
      const watching = await watch()
      await watching.synced()
      const gone = await remove('a')
      await watching.reaches(gone.metadata.version)
      const event = watching.changes.at(-1)
      const object = objectIn(event)
      expect(event?.type).toBe('DELETED')
      expect(object.spec).toEqual(last.spec)
      expect(object.metadata).toEqual({
        ...last.metadata,
        version: gone.metadata.version,
        resourceVersion: gone.metadata.version,
      })
      expect(Number(gone.metadata.version)).toBeGreaterThan(Number(last.metadata.version))
    })

    it('of objects with finalizers are MODIFIED first, and DELETED when the last finalizer is removed', async () => {
      await items.create('a', {}, { finalizers: ['x.com/f', 'x.com/g'] })
      const watching = await watch()
      await watching.synced()
      await remove('a')
      await api.mergePatch(items.at('a'), { metadata: { finalizers: ['x.com/g'] } })
      await api.mergePatch(items.at('a'), { metadata: { finalizers: null } })
      await watching.until(({ story }) => story.includes('DELETED a'))
      expect(watching.story).toEqual(['ADDED a', 'MODIFIED a', 'MODIFIED a', 'DELETED a'])
      expect(objectIn(watching.changes.at(-1)).metadata.deletionTimestamp).toBeDefined()
    })
  })

  it('end with 1000 after timeoutSeconds, with a last bookmark', async () => {
    await items.create('a', {})
    const watching = await watch('timeoutSeconds=1')
    expect((await watching.closed).code).toBe(1000)
    expect(watching.events.at(-1)?.type).toBe('BOOKMARK')
    const made = await items.create('b', {})
    const resumed = await watch(`version=${watching.events.at(-1)?.version}`)
    await resumed.reaches(made.metadata.version)
    expect(resumed.story).toEqual(['ADDED b'])
  })

  it('do not affect each other when one is cut', async () => {
    const watches = await Promise.all(Array.from({ length: 10 }, () => watch()))
    await Promise.all(watches.map(each => each.synced()))
    await Promise.all(watches.slice(0, 5).map(each => each.cut()))
    const made = await items.create('a', {})
    await Promise.all(watches.slice(5).map(each => each.reaches(made.metadata.version)))
    for (const each of watches.slice(5)) expect(each.story).toEqual(['ADDED a'])
  })

  it('send the same bytes to everyone', async () => {
    const [one, two] = await Promise.all([watch(), watch('labelSelector=!nothing')])
    await Promise.all([one.synced(), two.synced()])
    const made = await items.create('a', { count: 1, tags: ['x'] })
    await Promise.all([one.reaches(made.metadata.version), two.reaches(made.metadata.version)])
    expect(one.changes.map(({ raw }) => raw)).toEqual(two.changes.map(({ raw }) => raw))
    expect(fieldsOf(one.changes[0]?.raw.object)).toEqual(made.raw)
  })

  it('continue if a client sends garbage, or end only for that client', async () => {
    const [good, bad] = await Promise.all([watch(), watch()])
    await Promise.all([good.synced(), bad.synced()])
    bad.say('not a message that anybody expects')
    bad.say('x'.repeat(1024 * 1024))
    const made = await items.create('a', {})
    await good.reaches(made.metadata.version)
    expect(good.story).toEqual(['ADDED a'])
  })

  describe('refused before the upgrade', () => {
    it.each([
      ['an unknown kind', '/apis/items.example.com/v1/nothings', 404],
      ['an unknown path', '/nowhere', 404],
      ['a subresource', '/apis/items.example.com/v1/items/a/status', 404],
      ['a selector that does not parse', '/apis/items.example.com/v1/items?labelSelector=a%20b', 400],
      ['an unknown field', '/apis/items.example.com/v1/items?fieldSelector=spec.nothing%3Da', 400],
      ['a version that is no number', '/apis/items.example.com/v1/items?version=latest', 400],
      ['two versions', '/apis/items.example.com/v1/items?version=1&resourceVersion=2', 400],
      ['a timeout that is no number', '/apis/items.example.com/v1/items?timeoutSeconds=soon', 400],
      ['a page', '/apis/items.example.com/v1/items?page=1', 400],
      ['a path that is not percent-encoded', '/apis/items.example.com/v1/items/%zz', 400],
    ])('%s is an HTTP answer with a Status', async (_what, path, code) => {
      refusalOf(await refusedWatch(world.server.url, path), code)
    })

    it('a request from another site gets an HTTP error with a Status', async () => {
      refusalOf(await refusedWatch(world.server.url, items.path, { origin: 'https://evil.example.com' }), 403)
    })
  })
})
