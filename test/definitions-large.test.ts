import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Api, objectOf, refusalOf } from './support/api.ts'
import { define, definitionOf, definitionsPath, objectsOf, pathOf } from './support/definitions.ts'
import type { Fields } from './support/json.ts'
import { type ServerProcess, startServer } from './support/server.ts'

/** Breaks every schema below. */
const wrong = { f7: [], a: [] }

const fields = (count: number, schemaOf: (n: number) => Fields): Fields => ({
  type: 'object',
  properties: Object.fromEntries(Array.from({ length: count }, (_, n) => [`f${n}`, schemaOf(n)])),
})

const large: readonly [what: string, plural: string, spec: Fields, object: Fields][] = [
  ['10,000 fields', 'fields', fields(10_000, () => ({ type: 'string' })), { f7: 'x', f9999: 'x' }],
  [
    '2,000 patterns',
    'patterns',
    fields(2_000, n => ({ type: 'string', pattern: `^(a|b|[c-z]{1,${10 + (n % 50)}})+x${n}$` })),
    { f7: 'ax7' },
  ],
  [
    '3,000 defaults',
    'defaults',
    fields(3_000, n => ({ type: 'object', default: { a: n }, properties: { a: { type: 'integer' } } })),
    {},
  ],
  [
    'a default of 900 kB',
    'texts',
    { type: 'object', properties: { a: { type: 'string', default: 'x'.repeat(900_000) } } },
    { a: 'y' },
  ],
  [
    '1,000 rules',
    'rules',
    fields(1_000, n => ({ type: 'integer', 'x-kubernetes-validations': [{ rule: `self > ${n}` }] })),
    { f7: 9 },
  ],
  [
    '30,000 values in enums',
    'enums',
    fields(100, () => ({ type: 'string', enum: Array.from({ length: 300 }, (_, n) => `v${n}`) })),
    { f7: 'v7' },
  ],
]

describe('a definition with', () => {
  let server: ServerProcess
  let api: Api

  beforeAll(async () => {
    server = await startServer()
    api = new Api(server.url)
  })
  afterAll(async () => void (await server?.stop()))

  it.each(large)('%s is served, and its objects are checked', async (_, plural, spec, content) => {
    const definition = definitionOf({ plural, versions: { v1: { spec } } })
    const objects = objectsOf(api, definition)
    await define(api, definition)
    await objects.create('a', content)
    refusalOf(await api.post(objects.path, objects.body('b', wrong)), 422)
    expect((await api.get('/openapi/v3/apis/live.example.com/v1')).status).toBe(200)
    await api.mergePatch(pathOf(definition), { metadata: { labels: { a: 'b' } } })
    expect((await objects.list()).names).toEqual(['a'])
    objectOf(await api.delete(pathOf(definition)))
  })

  it('what is too large is refused, not half taken', async () => {
    const deep = (levels: number): Fields =>
      levels === 0 ? { type: 'string' } : { type: 'object', properties: { a: deep(levels - 1) } }
    const spec = fields(10_000, () => ({ type: 'string', description: 'd'.repeat(150) }))
    for (const [schema, code] of [
      [deep(300), 400],
      [spec, 413],
    ] as const) {
      const definition = definitionOf({ plural: 'huges', versions: { v1: { spec: schema } } })
      expect([code, 422]).toContain((await api.post(definitionsPath, definition)).status)
      refusalOf(await api.get(pathOf(definition)), 404)
      refusalOf(await api.get(objectsOf(api, definition).path), 404)
    }
  })

  it('500 versions serves each of them', async () => {
    const versions = Object.fromEntries(
      Array.from({ length: 500 }, (_, n) => [
        `v${n + 1}`,
        { spec: { type: 'object', description: `${n}`, properties: { a: { type: 'string' } } } },
      ]),
    )
    const definition = definitionOf({ plural: 'manies', kind: 'Many', versions })
    await define(api, definition)
    await objectsOf(api, definition, { version: 'v1' }).create('a', { a: 'x' })
    expect((await objectsOf(api, definition, { version: 'v500' }).read('a')).spec).toEqual({ a: 'x' })
    objectOf(await api.delete(pathOf(definition)))
  })
})
