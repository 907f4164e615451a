import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type Api, type Collection, objectOf, refusalOf } from './support/api.ts'
import { fieldsOf } from './support/json.ts'
import { itemsOf } from './support/kinds.ts'
import { type SharedWorld, startSharedWorld, stores } from './support/worlds.ts'

describe.each(stores)('objects on the %s store', store => {
  let world: SharedWorld
  let api: Api
  let items: Collection

  beforeAll(async () => {
    world = await startSharedWorld(store, ['items-plugin', 'demo-plugin'])
    api = world.api
    items = itemsOf(api)
  })
  afterAll(() => world?.end())
  beforeEach(() => items.clear())

  it('have the metadata that the server owns from their creation', async () => {
    const before = Date.now()
    const { metadata, raw } = await items.create('one', { count: 1 })
    expect(metadata.uid).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/)
    expect(metadata.version).toMatch(/^[1-9]\d*$/)
    expect(metadata.generation).toBe(1)
    expect(metadata.creationTimestamp).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    expect(Math.abs(Date.parse(metadata.creationTimestamp) - before)).toBeLessThan(60_000)
    expect(Object.keys(fieldsOf(raw.metadata)).sort()).toEqual([
      'creationTimestamp',
      'generation',
      'name',
      'resourceVersion',
      'uid',
      'version',
    ])
  })

  it('ignore server-owned fields in a create', async () => {
    const { metadata } = await items.create(
      'one',
      {},
      {
        uid: '00000000-0000-4000-8000-000000000000',
        version: '987654321',
        resourceVersion: '987654321',
        generation: 9,
        creationTimestamp: '2001-01-01T00:00:00.000Z',
        deletionTimestamp: '2001-01-01T00:00:00.000Z',
      },
    )
    expect(metadata.uid).not.toBe('00000000-0000-4000-8000-000000000000')
    expect(metadata.version).not.toBe('987654321')
    expect(metadata.generation).toBe(1)
    expect(metadata.creationTimestamp).not.toContain('2001')
    expect(metadata.deletionTimestamp).toBeUndefined()
  })

  it('drop unknown metadata, managedFields among it', async () => {
    const made = await items.create(
      'one',
      {},
      { managedFields: [{}], namespace: 'x', clusterName: 'y', colour: 'red' },
    )
    const kept = Object.keys(fieldsOf(made.raw.metadata))
    for (const field of ['managedFields', 'namespace', 'clusterName', 'colour'])
      expect(kept).not.toContain(field)
  })

  it.each(['a', '0', 'a-b', '1-2', 'x'.repeat(253), 'a--b', '007'])('may be called %s', async name => {
    expect((await items.create(name, {})).metadata.name).toBe(name)
    expect((await items.read(name)).metadata.name).toBe(name)
    objectOf(await api.delete(items.at(name)))
  })

  it.each([
    ['a name without prefix', { plain: 'v' }],
    ['a prefix with dots', { 'a.b-c.example.com/name': 'v' }],
    ['a prefix of 253 characters', { [`${'x'.repeat(253)}/a`]: 'v' }],
    ['a name of 63 characters', { [`a.com/${'x'.repeat(63)}`]: 'v' }],
    ['a name of every character', { 'a.com/A-b.c_9': 'v' }],
    ['an empty value', { 'a.com/a': '' }],
    ['a value of 63 characters', { 'a.com/a': 'x'.repeat(63) }],
    ['a value of every character', { 'a.com/a': 'A-b.c_9' }],
    ['the reserved domain, from a person', { 'setpoint.dev/a': 'v' }],
  ])('may have labels with %s', async (_what, labels) => {
    expect((await items.create('one', {}, { labels })).metadata.labels).toEqual(labels)
  })

  it('keep annotations of up to 256 KiB together', async () => {
    const annotations = { a: 'x'.repeat(200_000), 'b.com/c': 'ÿ '.repeat(10) }
    expect((await items.create('one', {}, { annotations })).metadata.annotations).toEqual(annotations)
  })

  it('keep owner references', async () => {
    const ownerReferences = [
      {
        apiVersion: 'a.com/v1',
        kind: 'Owner',
        name: 'o',
        uid: 'u-1',
        controller: true,
        blockOwnerDeletion: false,
      },
    ]
    await items.create('one', {}, { ownerReferences })
    expect(fieldsOf((await items.read('one')).raw.metadata).ownerReferences).toEqual(ownerReferences)
  })

  it('keep creationTimestamp and uid across every write', async () => {
    const { metadata } = await items.create('one', { count: 1 })
    const put = objectOf(
      await api.put(
        items.at('one'),
        items.body('one', { count: 2 }, { creationTimestamp: '2001-01-01T00:00:00Z' }),
      ),
    )
    expect(put.metadata.creationTimestamp).toBe(metadata.creationTimestamp)
    expect(put.metadata.uid).toBe(metadata.uid)
  })

  it('keep fields that the schema does not have, at the top level as well', async () => {
    const body = { ...items.body('one', { unknown: { deep: [1, null, 'x'] } }) }
    objectOf(await api.post(items.path, body), 201)
    expect((await items.read('one')).spec).toEqual({ unknown: { deep: [1, null, 'x'] } })
  })

  it.each([
    '0',
    '-0.0',
    '1',
    '9007199254740991',
    '-9007199254740991',
    '0.1',
    '1e3',
    '1.50',
    '123456789.125',
    '5e-324',
    '1.7976931348623157e308',
  ])('keep the number %s exactly', async literal => {
    const body = `{"apiVersion":"items.example.com/v1","kind":"Item","metadata":{"name":"one"},"spec":{"ratio":${literal}}}`
    objectOf(await api.post(items.path, body), 201)
    const answer = await api.get(items.at('one'))
    const [, stored] = /"ratio":([^,}]+)/.exec(answer.text) ?? []
    expect(Number(stored)).toBe(Number(literal) === 0 ? Number(stored) * 0 : Number(literal))
    expect(decimal(stored ?? '')).toBe(decimal(literal))
  })

  it.each([
    '9007199254740993',
    '-9007199254740993',
    '123456789012345678901234567890',
    '0.1000000000000000055511151231257827',
    '1e400',
    '3.14159265358979323846264338327950288',
  ])('refuse the number %s, which they could not keep exactly, with 400', async literal => {
    const json = `{"apiVersion":"items.example.com/v1","kind":"Item","metadata":{"name":"one"},"spec":{"ratio":${literal}}}`
    refusalOf(await api.post(items.path, json), 400)
    const yaml = `apiVersion: items.example.com/v1\nkind: Item\nmetadata: {name: one}\nspec: {ratio: ${literal}}\n`
    refusalOf(await api.post(items.path, yaml, { type: 'application/yaml' }), 400)
    refusalOf(await api.get(items.at('one')), 404)
  })

  it('keep any text', async () => {
    const text = 'ÿ 日本 😀 \u0000 \u001f " \\ / \u2028 \ufeff e\u0301'
    await items.create('one', { deep: { text } })
    expect((await items.read('one')).spec).toEqual({ deep: { text } })
  })

  it('keep keys that are special in JavaScript, and refuse __proto__', async () => {
    const deep = { constructor: 1, toString: 'x', hasOwnProperty: null, length: 0 }
    await items.create('one', { deep })
    expect((await items.read('one')).spec).toEqual({ deep })
    const body = JSON.stringify(items.body('two', { deep: 'here' })).replace(
      '"here"',
      '{"__proto__":{"flag":true}}',
    )
    expect(refusalOf(await api.post(items.path, body), 400).message).toContain('spec.deep.__proto__')
  })

  it('are the same in GET, in a list and in HEAD', async () => {
    const made = await items.create('one', { count: 1, tags: ['a'] }, { labels: { 'a.com/b': 'c' } })
    expect((await items.read('one')).raw).toEqual(made.raw)
    expect((await items.list()).items.map(({ raw }) => raw)).toEqual([made.raw])
    const head = await api.request('HEAD', items.at('one'))
    expect([head.status, head.text]).toEqual([200, ''])
  })

  describe('of a plugin', () => {
    const route = '/apis/console.api.demo.example.com/v1/gadgets'
    const gadget = (name: string, labels: Record<string, string>) => ({
      apiVersion: 'demo.example.com/v1',
      kind: 'Gadget',
      metadata: { name, labels },
      spec: { email: `${name}@example.com` },
    })

    it.each([
      ['without a prefix', { plain: 'v' }],
      ['of the reserved domain', { 'setpoint.dev/a': 'v' }],
      ['of a sub-domain of the reserved domain', { 'x.setpoint.dev/a': 'v' }],
    ])('may not add label keys %s: 422', async (_what, labels) => {
      refusalOf(await api.post(route, gadget('refused', labels)), 422)
      refusalOf(await api.get('/apis/demo.example.com/v1/gadgets/refused'), 404)
    })

    it("may have labels in the plugin's domain", async () => {
      objectOf(await api.post(route, gadget('labelled', { 'demo.example.com/a': 'v' })), 201)
    })

    it('may be updated with labels that a person has set', async () => {
      const path = '/apis/demo.example.com/v1/gadgets'
      objectOf(await api.post(path, gadget('of-a-person', { plain: 'v', 'setpoint.dev/a': 'v' })), 201)
      // The plugin's controller adds its finalizer to this object.
      await world.api.get(`${path}/of-a-person`)
      const read = async () => objectOf(await api.get(`${path}/of-a-person`))
      await expect.poll(async () => (await read()).metadata.finalizers).toEqual(['demo.example.com/cleanup'])
      expect((await read()).metadata.labels).toEqual({ plain: 'v', 'setpoint.dev/a': 'v' })
    })
  })
})

/** Converts a number literal to digits and exponent, so that equal values give equal texts. */
function decimal(literal: string): string {
  const match = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(literal)
  if (match === null) throw new Error(`no number: ${literal}`)
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = match
  const digits = (whole + fraction).replace(/^0+/, '')
  const significant = digits.replace(/0+$/, '')
  if (significant === '') return '0'
  return `${sign}${significant}e${Number(exponent) - fraction.length + digits.length - significant.length}`
}
