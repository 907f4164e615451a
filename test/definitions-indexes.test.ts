import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type Api, type Collection, objectOf, refusalOf } from './support/api.ts'
import {
  applyDefinition,
  conditionIn,
  type DefinitionParts,
  define,
  definitionOf,
  messageIn,
  objectsOf,
  pathOf,
  readDefinition,
} from './support/definitions.ts'
import type { Fields } from './support/json.ts'
import { refusedWatch, Watch } from './support/watch.ts'
import { createAll, eventually, type SharedWorld, startSharedWorld, stores } from './support/worlds.ts'

const spec: Fields = {
  type: 'object',
  properties: {
    color: { type: 'string' },
    size: { type: 'integer' },
    isNew: { type: 'boolean' },
    code: { type: 'string' },
    hosts: { type: 'array', items: { type: 'object', properties: { name: { type: 'string' } } } },
  },
}
const selectable = ['.spec.color', '.spec.size', '.spec.isNew']

function shirts(parts: Omit<DefinitionParts, 'plural'>): Fields {
  return definitionOf({ plural: 'shirts', ...parts })
}

describe.each(stores)('on %s, the indexes of a definition', store => {
  let world: SharedWorld
  let api: Api
  let defined: Fields | undefined

  beforeAll(async () => {
    world = await startSharedWorld(store, [])
    api = world.api
  })
  afterAll(() => world?.end())
  afterEach(async () => {
    if (defined !== undefined) objectOf(await api.delete(pathOf(defined)))
    defined = undefined
  })

  async function serve(parts: Omit<DefinitionParts, 'plural'>, namespace?: string): Promise<Collection> {
    defined = shirts(parts)
    await define(api, defined)
    return objectsOf(api, defined, namespace === undefined ? {} : { namespace })
  }

  const change = (parts: Omit<DefinitionParts, 'plural'>) => applyDefinition(api, shirts(parts))
  const names = async (objects: Collection, query: Record<string, string>) =>
    (await objects.list({ sort: 'metadata.name', ...query })).names

  describe('that are selectable fields', () => {
    it('select, sort and page, and an absent field has the value of the empty text', async () => {
      const objects = await serve({ versions: { v1: { spec, selectable } } })
      await createAll(objects, [
        { name: 'a', spec: { color: 'red', size: 1, isNew: true } },
        { name: 'b', spec: { color: 'blue', size: 2 } },
        { name: 'c', spec: {} },
        { name: 'd', spec: { color: '', size: 1, isNew: false } },
      ])
      const select = (fieldSelector: string) => names(objects, { fieldSelector })
      expect(await select('spec.color=red')).toEqual(['a'])
      expect(await select('spec.color=')).toEqual(['c', 'd'])
      expect(await select('spec.color!=')).toEqual(['a', 'b'])
      expect(await select('spec.color!=red')).toEqual(['b', 'c', 'd'])
      expect(await select('spec.size=1,spec.isNew=true')).toEqual(['a'])
      expect(await select('spec.isNew=false')).toEqual(['d'])
      expect(await select('spec.color in (red,blue),spec.size!=2')).toEqual(['a'])
      expect(await select('spec.color notin (red)')).toEqual(['b', 'c', 'd'])
      expect(await select('spec.color>b')).toEqual(['a', 'b'])
      expect(await names(objects, { sort: 'spec.color,desc', page: '1', size: '2' })).toEqual(['a', 'b'])
      expect((await objects.list({ sort: ['spec.size', 'metadata.name,desc'] })).names).toEqual([
        'c',
        'd',
        'a',
        'b',
      ])
      refusalOf(await api.get(`${objects.path}?fieldSelector=spec.code=1`), 400)
    })

    it('belong to their versions: requests to another version do not know them', async () => {
      const objects = await serve({
        versions: {
          v1: { spec, selectable: ['.spec.color'] },
          v2: { spec: { ...spec, description: 'Newer.' }, selectable: ['.spec.size'] },
        },
      })
      await objects.create('a', { color: 'red', size: 1 })
      const v2 = objectsOf(api, defined ?? {}, { version: 'v2' })
      expect((await objects.list({ fieldSelector: 'spec.color=red' })).names).toEqual(['a'])
      expect((await v2.list({ fieldSelector: 'spec.size=1' })).names).toEqual(['a'])
      for (const path of [
        `${v2.path}?fieldSelector=spec.color=red`,
        `${objects.path}?fieldSelector=spec.size=1`,
      ]) {
        expect(refusalOf(await api.get(path), 400).message).toMatch(/spec\.(size|color)/)
        refusalOf(await api.delete(path), 400)
        expect((await refusedWatch(world.server.url, path)).status).toBe(400)
      }
      refusalOf(await api.get(`${v2.path}?sort=spec.color`), 400)
      expect((await objects.list()).names).toEqual(['a'])
    })

    it('select the events of a watch, of objects that come to match and cease to', async () => {
      const objects = await serve({ versions: { v1: { spec, selectable } } })
      const red = await Watch.open(world.server.url, `${objects.path}?fieldSelector=spec.color=red`)
      const without = await Watch.open(world.server.url, `${objects.path}?fieldSelector=spec.color=`)
      await objects.create('a', {})
      objectOf(await api.mergePatch(objects.at('a'), { spec: { color: 'red' } }))
      const last = objectOf(await api.mergePatch(objects.at('a'), { spec: { color: null } }))
      await without.reaches(last.metadata.version)
      await red.reaches(last.metadata.version)
      expect(red.story).toEqual(['ADDED a', 'DELETED a'])
      expect(without.story).toEqual(['ADDED a', 'DELETED a', 'ADDED a'])
      await Promise.all([red.close(), without.close()])
    })
  })

  describe('of the annotation', () => {
    it('have their names, several values and their own order', async () => {
      const objects = await serve({
        versions: { v1: { spec }, v2: { spec } },
        indexes: [
          { path: '.spec.size', order: 'DESC' },
          { name: 'hosts', path: '.spec.hosts[*].name', multi: true },
        ],
      })
      await createAll(objects, [
        { name: 'a', spec: { size: 1, hosts: [{ name: 'x' }, { name: 'y' }] } },
        { name: 'b', spec: { size: 2, hosts: [{ name: 'y' }] } },
        { name: 'c', spec: {} },
      ])
      for (const version of ['v1', 'v2']) {
        const each = objectsOf(api, defined ?? {}, { version })
        expect((await each.list({ sort: 'spec.size' })).names).toEqual(['b', 'a', 'c'])
        expect(await names(each, { fieldSelector: 'hosts=y' })).toEqual(['a', 'b'])
        expect(await names(each, { fieldSelector: 'hosts=y,hosts!=x' })).toEqual(['b'])
        // Unlike a selectable field, it has no value in an object without the field.
        expect(await names(each, { fieldSelector: 'spec.size=' })).toEqual([])
      }
    })

    it('that are unique hold in the kind, with the name of the index and the holder in the refusal', async () => {
      const objects = await serve({
        versions: { v1: { spec }, v2: { spec } },
        indexes: [{ path: '.spec.code', unique: true }],
      })
      await objects.create('a', { code: '1' })
      const { causes } = refusalOf(
        await api.post(objects.path, objects.body('b', { code: '1' })),
        409,
        'AlreadyExists',
      )
      expect(causes).toMatchObject([{ reason: 'FieldValueDuplicate', field: 'spec.code' }])
      expect(causes[0]?.message).toContain('"a"')
      const v2 = objectsOf(api, defined ?? {}, { version: 'v2' })
      refusalOf(await api.post(v2.path, v2.body('b', { code: '1' })), 409)
      await createAll(objects, [{ name: 'b' }, { name: 'c' }])
      refusalOf(await api.mergePatch(objects.at('b'), { spec: { code: '1' } }), 409)
      await api.delete(objects.at('a'))
      objectOf(await api.mergePatch(objects.at('b'), { spec: { code: '1' } }))
    })

    it('that are unique within a namespace hold in each, and those of the kind across all', async () => {
      const indexes = [
        { path: '.spec.code', unique: true, uniqueWithin: 'namespace' },
        { path: '.spec.size', unique: true },
      ]
      const here = await serve({ scope: 'Namespaced', versions: { v1: { spec } }, indexes }, 'default')
      const there = objectsOf(api, defined ?? {}, { namespace: 'setpoint-system' })
      await here.create('a', { code: '1', size: 1 })
      await there.create('a', { code: '1', size: 2 })
      refusalOf(await api.post(here.path, here.body('b', { code: '1' })), 409)
      refusalOf(await api.post(there.path, there.body('b', { size: 1 })), 409)
    })

    it('that become unique leave existing duplicates writable and list them, and hold for all others', async () => {
      const objects = await serve({ versions: { v1: { spec } } })
      await createAll(objects, [
        { name: 'old', spec: { code: '1' } },
        { name: 'young', spec: { code: '1' } },
        { name: 'other', spec: { code: '2' } },
      ])
      await change({ versions: { v1: { spec } }, indexes: [{ path: '.spec.code', unique: true }] })
      const state = () => readDefinition(api, defined ?? {})
      await eventually(async () =>
        expect(conditionIn(await state(), 'IndexesInForce')).toBe('False Problems'),
      )
      const message = messageIn(await state(), 'IndexesInForce')
      expect(message).toMatch(/spec\.code.*"young".*"1".*"old"/)
      expect(message).not.toContain('other')
      objectOf(await api.mergePatch(objects.at('young'), { spec: { size: 3 } }))
      refusalOf(await api.mergePatch(objects.at('other'), { spec: { code: '1' } }), 409)
      refusalOf(await api.mergePatch(objects.at('young'), { spec: { code: '2' } }), 409)
      objectOf(await api.mergePatch(objects.at('young'), { spec: { code: '3' } }))
      await eventually(async () =>
        expect(conditionIn(await state(), 'IndexesInForce')).toBe('True NoProblems'),
      )
      await change({ versions: { v1: { spec } } })
      await eventually(async () => expect(conditionIn(await state(), 'IndexesInForce')).toBeUndefined())
      objectOf(await api.mergePatch(objects.at('young'), { spec: { code: '1' } }))
    })

    it('are other indexes with another path, also under the same name', async () => {
      const unique = (path: string) => ({
        versions: { v1: { spec } },
        indexes: [{ name: 'key', path, unique: true }],
      })
      const objects = await serve(unique('.spec.code'))
      await createAll(objects, [
        { name: 'a', spec: { code: '1', color: 'red' } },
        { name: 'b', spec: { code: '2', color: 'blue' } },
      ])
      await change(unique('.spec.color'))
      expect(await names(objects, { fieldSelector: 'key=red' })).toEqual(['a'])
      refusalOf(await api.post(objects.path, objects.body('c', { color: 'red' })), 409)
      await objects.create('c', { code: '1', color: 'green' })
      expect(
        refusalOf(await api.post(objects.path, objects.body('d', { color: 'green' })), 409).causes,
      ).toMatchObject([{ reason: 'FieldValueDuplicate', field: 'key' }])
    })
  })
})
