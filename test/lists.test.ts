import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Api, type Collection, listOf, objectOf, queryText, refusalOf } from './support/api.ts'
import { fieldsOf, textOf } from './support/json.ts'
import { itemsOf } from './support/kinds.ts'
import { bothStores, createAll, type SharedWorld, startSharedWorld } from './support/worlds.ts'

type Query = Readonly<Record<string, string | readonly string[]>>

describe.each(bothStores)('lists on the %s store', store => {
  let world: SharedWorld
  let api: Api
  let items: Collection

  beforeAll(async () => {
    world = await startSharedWorld(store, ['items-plugin'])
    api = world.api
    items = itemsOf(api)
  })
  afterAll(() => world?.end())

  const names = async (query: Query) => (await items.list(query)).names
  const sorted = async (query: Query) => [...(await names(query))].sort()

  describe('paging', () => {
    beforeAll(async () => {
      await items.clear()
      await createAll(
        items,
        Array.from({ length: 7 }, (_, n) => ({ name: `p-${n}`, spec: { count: n } })),
      )
    })

    const page = async (query: Query) => {
      const { raw, names } = await items.list({ sort: 'metadata.name', ...query })
      const { page, size, total, totalPages, first, last, hasNext, hasPrevious } = raw
      return {
        page,
        size,
        total,
        totalPages,
        first,
        last,
        hasNext,
        hasPrevious,
        names: names.map(name => name.slice(2)).join(''),
      }
    }

    it.each([
      [
        {},
        {
          page: 1,
          size: 7,
          total: 7,
          totalPages: 1,
          first: true,
          last: true,
          hasNext: false,
          hasPrevious: false,
          names: '0123456',
        },
      ],
      [
        { size: '3' },
        {
          page: 1,
          size: 3,
          total: 7,
          totalPages: 3,
          first: true,
          last: false,
          hasNext: true,
          hasPrevious: false,
          names: '012',
        },
      ],
      [
        { size: '3', page: '2' },
        {
          page: 2,
          size: 3,
          total: 7,
          totalPages: 3,
          first: false,
          last: false,
          hasNext: true,
          hasPrevious: true,
          names: '345',
        },
      ],
      [
        { size: '3', page: '3' },
        {
          page: 3,
          size: 3,
          total: 7,
          totalPages: 3,
          first: false,
          last: true,
          hasNext: false,
          hasPrevious: true,
          names: '6',
        },
      ],
      [
        { size: '3', page: '4' },
        {
          page: 4,
          size: 3,
          total: 7,
          totalPages: 3,
          first: false,
          last: true,
          hasNext: false,
          hasPrevious: true,
          names: '',
        },
      ],
      [
        { size: '3', page: '99999999' },
        {
          page: 99_999_999,
          size: 3,
          total: 7,
          totalPages: 3,
          first: false,
          last: true,
          hasNext: false,
          hasPrevious: true,
          names: '',
        },
      ],
      [
        { size: '7' },
        {
          page: 1,
          size: 7,
          total: 7,
          totalPages: 1,
          first: true,
          last: true,
          hasNext: false,
          hasPrevious: false,
          names: '0123456',
        },
      ],
      [
        { size: '100' },
        {
          page: 1,
          size: 100,
          total: 7,
          totalPages: 1,
          first: true,
          last: true,
          hasNext: false,
          hasPrevious: false,
          names: '0123456',
        },
      ],
      [
        { page: '1' },
        {
          page: 1,
          size: 7,
          total: 7,
          totalPages: 1,
          first: true,
          last: true,
          hasNext: false,
          hasPrevious: false,
          names: '0123456',
        },
      ],
      [
        { page: '2' },
        {
          page: 2,
          size: 7,
          total: 7,
          totalPages: 1,
          first: false,
          last: true,
          hasNext: false,
          hasPrevious: true,
          names: '',
        },
      ],
      [
        { size: '3', fieldSelector: 'metadata.name=p-5' },
        {
          page: 1,
          size: 3,
          total: 1,
          totalPages: 1,
          first: true,
          last: true,
          hasNext: false,
          hasPrevious: false,
          names: '5',
        },
      ],
    ] as const)('%o answers exactly that page and its fields', async (query, expected) => {
      expect(await page(query)).toEqual(expected)
    })

    it('of an empty list has no pages, and is both the first and the last', async () => {
      const { total, totalPages, first, last, hasNext, hasPrevious } = (
        await items.list({ size: '3', fieldSelector: 'metadata.name=nobody' })
      ).raw
      expect({ total, totalPages, first, last, hasNext, hasPrevious }).toEqual({
        total: 0,
        totalPages: 0,
        first: true,
        last: true,
        hasNext: false,
        hasPrevious: false,
      })
    })

    it('at the version of the first page does not shift while objects change', async () => {
      const query = { sort: 'metadata.name', size: '3' }
      const first = await items.list(query)
      await items.create('p-00', {})
      objectOf(await api.delete(items.at('p-1')))
      const at = { ...query, resourceVersion: first.version, resourceVersionMatch: 'Exact' }
      const second = await items.list({ ...at, page: '2' })
      const third = await items.list({ ...at, page: '3' })
      expect([...first.names, ...second.names, ...third.names]).toEqual([
        'p-0',
        'p-1',
        'p-2',
        'p-3',
        'p-4',
        'p-5',
        'p-6',
      ])
      expect(second.version).toBe(first.version)
      expect(await names({ sort: 'metadata.name' })).toEqual([
        'p-0',
        'p-00',
        'p-2',
        'p-3',
        'p-4',
        'p-5',
        'p-6',
      ])
    })
  })

  describe('sorting', () => {
    beforeAll(async () => {
      await items.clear()
      await createAll(items, [
        { name: 'd', spec: { rank: '10', level: 'x', tags: ['m'] } },
        { name: 'b', spec: { rank: '9', level: 'x', tags: ['z', 'a'] } },
        { name: 'c', spec: { rank: '9', level: 'y' } },
        { name: 'a', spec: { rank: '', tags: ['c', 'y'] } },
        { name: 'f', spec: {} },
        { name: 'e', spec: { level: 'z', tags: [] } },
        { name: 'g', spec: { rank: '\ud83d\ude00', tags: ['b'] } },
        { name: 'h', spec: { rank: '\uffee' } },
        { name: 'i', spec: { rank: '01' } },
      ])
    })

    it.each([
      [
        'strings by code point, "" before all, missing values last, ties by name',
        'spec.rank,asc',
        'aidbchgef',
      ],
      ['descending: missing values still last, ties still by name', 'spec.rank,desc', 'ghbcdiaef'],
      ["the index's own order, ascending", 'spec.rank', 'aidbchgef'],
      ["the index's own order, descending", 'spec.level', 'ecbdafghi'],
      ['against the own order', 'spec.level,asc', 'bdceafghi'],
      ['by the smallest of several values', 'spec.tags,asc', 'bgadcefhi'],
      ['descending by the largest of several values', 'spec.tags,desc', 'badgcefhi'],
      ['by name', 'metadata.name,asc', 'abcdefghi'],
      ['by name, descending', 'metadata.name,desc', 'ihgfedcba'],
    ])('%s: sort=%s', async (_what, sort, expected) => {
      expect((await names({ sort })).join('')).toBe(expected)
    })

    it('breaks ties by further keys', async () => {
      expect((await names({ sort: ['spec.rank,asc', 'spec.level,asc'] })).join('')).toBe('aidbchgef')
      expect((await names({ sort: ['spec.rank,asc', 'spec.level,desc'] })).join('')).toBe('aidcbhgef')
      expect((await names({ sort: ['spec.level,asc', 'metadata.name,desc'] })).join('')).toBe('dbceihgfa')
    })

    it('is by creation, newest first, by default', async () => {
      const { items: found } = await items.list()
      const keys = found.map(({ metadata }) => `${metadata.creationTimestamp}`)
      expect(keys).toEqual([...keys].sort().reverse())
      for (const [n, { metadata }] of found.entries()) {
        const previous = found[n - 1]?.metadata
        if (previous?.creationTimestamp === metadata.creationTimestamp)
          expect(previous.name < metadata.name).toBe(true)
      }
    })

    it('pages contain every object once, in every sort order', async () => {
      for (const sort of [
        'spec.rank,asc',
        'spec.rank,desc',
        'spec.tags,asc',
        'spec.tags,desc',
        'spec.level',
        'metadata.creationTimestamp,desc',
      ]) {
        const whole = await names({ sort })
        const paged: string[] = []
        for (const page of ['1', '2', '3', '4', '5']) paged.push(...(await names({ sort, size: '2', page })))
        expect(paged).toEqual(whole)
      }
    })
  })

  describe('label selectors', () => {
    beforeAll(async () => {
      await items.clear()
      await createAll(items, [
        { name: 'both', metadata: { labels: { 'x.com/app': 'web', tier: 'front' } } },
        { name: 'back', metadata: { labels: { 'x.com/app': 'web', tier: 'back' } } },
        { name: 'db', metadata: { labels: { 'x.com/app': 'db' } } },
        { name: 'bare' },
        { name: 'empty', metadata: { labels: { tier: '' } } },
      ])
    })

    it.each([
      ['x.com/app=web', ['back', 'both']],
      ['x.com/app==web', ['back', 'both']],
      ['x.com/app!=web', ['bare', 'db', 'empty']],
      ['x.com/app', ['back', 'both', 'db']],
      ['!x.com/app', ['bare', 'empty']],
      ['tier=', ['empty']],
      ['tier in (front,back)', ['back', 'both']],
      ['tier in (front)', ['both']],
      ['tier notin (front,back)', ['bare', 'db', 'empty']],
      ['x.com/app=web,tier=front', ['both']],
      ['x.com/app=web,tier!=front', ['back']],
      ['x.com/app,!tier', ['db']],
      [' x.com/app = web , tier in ( front , back ) ', ['back', 'both']],
      ['x.com/app=web,x.com/app=db', []],
      ['', ['back', 'bare', 'both', 'db', 'empty']],
    ])('%s', async (labelSelector, expected) => {
      expect(await sorted({ labelSelector })).toEqual(expected)
    })

    it('that are repeated are joined by AND', async () => {
      expect(await sorted({ labelSelector: ['x.com/app=web', 'tier=back'] })).toEqual(['back'])
    })

    it('and field selectors are joined by AND', async () => {
      expect(await sorted({ labelSelector: 'x.com/app=web', fieldSelector: 'metadata.name!=both' })).toEqual([
        'back',
      ])
    })

    it('see a changed label at once', async () => {
      objectOf(await api.mergePatch(items.at('bare'), { metadata: { labels: { tier: 'new' } } }))
      expect(await sorted({ labelSelector: 'tier=new' })).toEqual(['bare'])
      objectOf(await api.mergePatch(items.at('bare'), { metadata: { labels: { tier: null } } }))
      expect(await sorted({ labelSelector: 'tier=new' })).toEqual([])
    })
  })

  describe('field selectors', () => {
    beforeAll(async () => {
      await items.clear()
      await createAll(items, [
        { name: 'one', spec: { rank: 'a', tags: ['red', 'blue'] }, metadata: { labels: { 'x.com/l': 'v' } } },
        { name: 'two', spec: { rank: 'b', tags: ['red'] } },
        { name: 'three', spec: { rank: '', tags: ['green'] } },
        { name: 'four', spec: {} },
        { name: 'five', spec: { rank: 'a,b', tags: ['(x)', 'a=b', 'c!', 'd\\e'] } },
        { name: 'six', spec: { rank: '9' } },
        { name: 'seven', spec: { rank: '09' }, metadata: { finalizers: ['x.com/f'] } },
      ])
      objectOf(await api.delete(items.at('seven')))
    })

    it.each([
      ['spec.rank=a', ['one']],
      ['spec.rank==a', ['one']],
      ['spec.rank!=a', ['five', 'four', 'seven', 'six', 'three', 'two']],
      ['spec.rank=', ['three']],
      ['spec.rank!=', ['five', 'four', 'one', 'seven', 'six', 'two']],
      ['spec.rank=(a,b)', ['one', 'two']],
      ['spec.rank=(a)', ['one']],
      ['spec.rank in (a,b)', ['one', 'two']],
      ['spec.rank notin (a,b)', ['five', 'four', 'seven', 'six', 'three']],
      ['spec.rank!=(a,b)', ['five', 'four', 'seven', 'six', 'three']],
      ['spec.tags=red', ['one', 'two']],
      ['spec.tags!=red', ['five', 'four', 'seven', 'six', 'three']],
      ['spec.tags=(blue,green)', ['one', 'three']],
      ['spec.tags!=(blue,green)', ['five', 'four', 'seven', 'six', 'two']],
      ['spec.tags=red,spec.tags=blue', ['one']],
      ['spec.tags=red,spec.rank=b', ['two']],
      ['spec.rank=a\\,b', ['five']],
      ['spec.rank=(a\\,b,b)', ['five', 'two']],
      ['spec.tags=\\(x\\)', ['five']],
      ['spec.tags=a\\=b', ['five']],
      ['spec.tags=c\\!', ['five']],
      ['spec.tags=d\\\\e', ['five']],
      ['spec.rank=9', ['six']],
      ['spec.rank=09', ['seven']],
      ['metadata.name=one', ['one']],
      ['metadata.name in (one,two,nobody)', ['one', 'two']],
      ['metadata.labels=x.com/l\\=v', ['one']],
      ['metadata.labels!=x.com/l\\=v', ['five', 'four', 'seven', 'six', 'three', 'two']],
      ['metadata.deletionTimestamp!=(nothing)', ['five', 'four', 'one', 'seven', 'six', 'three', 'two']],
      ['', ['five', 'four', 'one', 'seven', 'six', 'three', 'two']],
      ['spec.rank<a', ['seven', 'six', 'three']],
      ['spec.rank<=a', ['one', 'seven', 'six', 'three']],
      ['spec.rank>a', ['five', 'two']],
      ['spec.rank>=a', ['five', 'one', 'two']],
      ['spec.rank>=9,spec.rank<b', ['five', 'one', 'six']],
      [' spec.rank > 9 , spec.rank > a , spec.rank <= b ', ['five', 'two']],
      ['spec.rank>b,spec.rank<a', []],
      ['spec.rank>=', ['five', 'one', 'seven', 'six', 'three', 'two']],
      ['spec.rank<', []],
      ['spec.rank<a\\,b', ['one', 'seven', 'six', 'three']],
      ['spec.rank=<a', []],
      ['spec.tags<c', ['five', 'one']],
      ['spec.tags<c,spec.tags>green', ['one']],
      ['spec.tags>=red,spec.rank!=a', ['two']],
      ['metadata.name>=six', ['six', 'three', 'two']],
      ['metadata.labels>=x.com/', ['one']],
      ['metadata.deletionTimestamp>=2000', ['seven']],
    ])('%s', async (fieldSelector, expected) => {
      expect(await sorted({ fieldSelector })).toEqual(expected)
    })

    it('on times of the metadata compare the exact text', async () => {
      const { metadata } = await items.read('seven')
      const { creationTimestamp, deletionTimestamp = '' } = metadata
      expect(await sorted({ fieldSelector: `metadata.deletionTimestamp=${deletionTimestamp}` })).toEqual([
        'seven',
      ])
      expect(await sorted({ fieldSelector: `metadata.creationTimestamp=${creationTimestamp}` })).toContain(
        'seven',
      )
    })

    it('that are repeated are joined by AND', async () => {
      expect(await sorted({ fieldSelector: ['spec.tags=red', 'spec.rank=b'] })).toEqual(['two'])
    })

    it('that compare page with an exact total, and in chunks', async () => {
      const { raw, names: page } = await items.list({
        fieldSelector: 'spec.rank>=9',
        sort: 'spec.rank,desc',
        page: '2',
        size: '3',
      })
      expect([page, raw.total, raw.totalPages]).toEqual([['six'], 4, 2])
      const first = await items.list({ fieldSelector: 'spec.rank>=9', limit: '3' })
      expect(first.names).toEqual(['five', 'one', 'six'])
      const rest = await items.list({
        fieldSelector: 'spec.rank>=9',
        limit: '3',
        continue: textOf(fieldsOf(first.raw.metadata).continue),
      })
      expect(rest.names).toEqual(['two'])
    })

    it('of labels compare integers only: the term is named', async () => {
      for (const labelSelector of ['tier>front', 'tier>=3']) {
        const refused = refusalOf(await api.get(`${items.path}${queryText({ labelSelector })}`), 400)
        expect(refused.message).toContain(`"${labelSelector}"`)
      }
    })

    it('with = and != of any value together select every object once', async () => {
      const all = await sorted({})
      for (const value of ['red', '', 'nothing', 'a\\,b', '(red,green)']) {
        const equal = await names({ fieldSelector: `spec.tags=${value}` })
        const unequal = await names({ fieldSelector: `spec.tags!=${value}` })
        expect([...equal, ...unequal].sort()).toEqual(all)
      }
    })
  })

  describe('limit and continue', () => {
    beforeAll(async () => {
      await items.clear()
      await createAll(
        items,
        ['c', 'a', 'e', 'b', 'd'].map(name => ({ name, spec: { tags: name < 'd' ? ['low'] : [] } })),
      )
    })

    it('return one snapshot in name order, despite concurrent writes', async () => {
      const first = await items.list({ limit: '2' })
      expect(first.names).toEqual(['a', 'b'])
      objectOf(await api.delete(items.at('c')))
      await items.create('bb', {})
      const second = await items.list({ limit: '2', continue: tokenOf(first.raw) })
      const third = await items.list({ limit: '2', continue: tokenOf(second.raw) })
      expect([...second.names, ...third.names]).toEqual(['c', 'd', 'e'])
      expect([second.version, third.version]).toEqual([first.version, first.version])
      expect(metadataOf(third.raw).continue ?? '').toBe('')
      await items.create('c', { tags: ['low'] })
      objectOf(await api.delete(items.at('bb')))
    })

    it('continue however often others list everything meanwhile', async () => {
      const first = await items.list({ limit: '4' })
      for (let n = 0; n < 70; n++) {
        objectOf(await api.mergePatch(items.at('e'), { spec: { count: n } }))
        await items.list()
      }
      const second = await items.list({ limit: '4', continue: tokenOf(first.raw) })
      expect(second.items.map(({ spec }) => spec.count)).toEqual([undefined])
    })

    it('return no page fields', async () => {
      const { raw } = await items.list({ limit: '2' })
      for (const field of [
        'page',
        'size',
        'total',
        'totalPages',
        'first',
        'last',
        'hasNext',
        'hasPrevious',
      ]) {
        expect(raw).not.toHaveProperty(field)
      }
    })

    it('return the number of remaining objects', async () => {
      const { raw } = await items.list({ limit: '2' })
      expect(metadataOf(raw).remainingItemCount).toBe(3)
    })

    it('work with selectors', async () => {
      const query = { limit: '2', fieldSelector: 'spec.tags=low' }
      const first = await items.list(query)
      const second = await items.list({ ...query, continue: tokenOf(first.raw) })
      expect([first.names, second.names]).toEqual([['a', 'b'], ['c']])
    })

    it('cannot be joined with page, size or sort', async () => {
      for (const other of ['page=1', 'size=1', 'sort=metadata.name']) {
        refusalOf(await api.get(`${items.path}?limit=2&${other}`), 400)
      }
    })
  })

  describe('versions', () => {
    beforeAll(() => items.clear())

    it('Exact returns the state at a version, before and after every kind of change', async () => {
      const states: { version: string; content: unknown }[] = []
      const remember = async () => {
        const { version, items: found } = await items.list({ sort: 'metadata.name' })
        states.push({ version, content: found.map(({ raw }) => raw) })
      }
      await remember()
      await items.create('a', { count: 1 })
      await remember()
      objectOf(await api.mergePatch(items.at('a'), { spec: { count: 2 } }))
      await remember()
      await items.create('b', {})
      await remember()
      objectOf(await api.delete(items.at('a')))
      await remember()
      for (const { version, content } of states) {
        const then = await items.list({
          sort: 'metadata.name',
          resourceVersion: version,
          resourceVersionMatch: 'Exact',
        })
        expect(then.version).toBe(version)
        expect(then.items.map(({ raw }) => raw)).toEqual(content)
      }
    })

    it('may be those of a write, for pages and for chunks of one state', async () => {
      await createAll(items, [{ name: 'p-1' }, { name: 'p-2' }])
      const last = await items.create('p-3', {})
      const exact = { resourceVersion: last.metadata.version, resourceVersionMatch: 'Exact' }
      const byName = { ...exact, fieldSelector: 'metadata.name>=p-', sort: 'metadata.name', size: '2' }
      expect((await items.list({ ...byName, page: '1' })).names).toEqual(['p-1', 'p-2'])
      const { version } = (await items.create('p-0', {})).metadata
      expect((await items.list({ ...byName, page: '2' })).names).toEqual(['p-3'])
      const selected = { fieldSelector: 'metadata.name>=p-', limit: '2' }
      const first = await items.list({ ...selected, resourceVersion: version })
      objectOf(await api.delete(items.at('p-3')))
      const second = await items.list({ ...selected, continue: tokenOf(first.raw) })
      expect([...first.names, ...second.names]).toEqual(['p-0', 'p-1', 'p-2', 'p-3'])
      for (const name of ['p-0', 'p-1', 'p-2']) objectOf(await api.delete(items.at(name)))
    })

    it('of writes that no list has shown are states, too', async () => {
      const { version } = (await items.create('q-1', { count: 1 })).metadata
      objectOf(await api.mergePatch(items.at('q-1'), { spec: { count: 2 } }))
      objectOf(await api.delete(items.at('q-1')))
      await createAll(items, [{ name: 'q-1' }, { name: 'q-2' }])
      const then = await items.list({
        fieldSelector: 'metadata.name>=q-',
        resourceVersion: version,
        resourceVersionMatch: 'Exact',
      })
      expect(then.items.map(({ metadata, spec }) => [metadata.name, metadata.version, spec])).toEqual([
        ['q-1', version, { count: 1 }],
      ])
      for (const name of ['q-1', 'q-2']) objectOf(await api.delete(items.at(name)))
    })

    it('in the future are refused: Exact with 410, NotOlderThan with 504', async () => {
      const { version } = await items.list()
      const future = String(Number(version) + 1000)
      refusalOf(
        await api.get(
          `${items.path}${queryText({ resourceVersion: future, resourceVersionMatch: 'Exact' })}`,
        ),
        410,
      )
      refusalOf(await api.get(`${items.path}?resourceVersion=${future}`), 504)
    })

    it('0 returns the cached state without a request to the store', async () => {
      expect((await items.list({ resourceVersion: '0' })).names).toEqual(['b'])
    })

    it('of a list is at least that of every item and of every write before it', async () => {
      const { metadata } = await items.create('c', {})
      const list = await items.list()
      expect(Number(list.version)).toBeGreaterThanOrEqual(Number(metadata.version))
      for (const item of list.items)
        expect(Number(list.version)).toBeGreaterThanOrEqual(Number(item.metadata.version))
    })

    it('of consecutive lists include every acknowledged write', async () => {
      for (let n = 0; n < 100; n++) {
        const rank = `r-${n}`
        objectOf(await api.mergePatch(items.at('c'), { spec: { rank } }))
        expect(await names({ fieldSelector: `spec.rank=${rank}` })).toEqual(['c'])
        expect((await items.read('c')).spec.rank).toBe(rank)
      }
    })
  })

  it('of an empty kind are lists of the right kind', async () => {
    const list = listOf(await api.get('/apis/items.example.com/v1/vaults'))
    expect([list.raw.apiVersion, list.raw.kind, list.raw.items]).toEqual([
      'items.example.com/v1',
      'VaultList',
      [],
    ])
  })
})

function metadataOf(raw: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const { metadata } = raw
  if (typeof metadata !== 'object' || metadata === null) throw new Error('a list without metadata')
  return { ...metadata }
}

function tokenOf(raw: Readonly<Record<string, unknown>>): string {
  return textOf(metadataOf(raw).continue)
}
