import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type Answer, type Api, type Collection, objectOf, refusalOf } from './support/api.ts'
import { fieldsOf } from './support/json.ts'
import { devicesOf, itemsOf, vaultsOf } from './support/kinds.ts'
import { requestText, sendRaw } from './support/raw-socket.ts'
import { objectIn, Watch } from './support/watch.ts'
import { bothStores, type SharedWorld, startSharedWorld } from './support/worlds.ts'

describe.each(bothStores)('writes on the %s store', store => {
  let world: SharedWorld
  let api: Api
  let items: Collection
  let devices: Collection
  let vaults: Collection

  beforeAll(async () => {
    world = await startSharedWorld(store, ['items-plugin'])
    api = world.api
    items = itemsOf(api)
    devices = devicesOf(api)
    vaults = vaultsOf(api)
  })
  afterAll(() => world?.end())
  beforeEach(() => items.clear())

  /** Runs an action and returns the events that it caused, in order. A marker object shows that all have arrived. */
  async function eventsOf(run: () => Promise<unknown>): Promise<string[]> {
    const watch = await Watch.open(world.server.url, items.path)
    await watch.synced()
    const before = watch.changes.length
    await run()
    const marker = await items.create('marker', {})
    await watch.reaches(marker.metadata.version)
    await watch.close()
    await api.delete(items.at('marker'))
    return watch.story.slice(before).filter(line => !line.endsWith(' marker'))
  }

  describe('create', () => {
    it('responds with 201, the object and its Location', async () => {
      const answer = await api.post(items.path, items.body('one', { title: 'first' }))
      const { metadata, spec } = objectOf(answer, 201)
      expect(answer.headers.get('location')).toBe(items.at('one'))
      expect(metadata.name).toBe('one')
      expect(spec).toEqual({ title: 'first' })
      expect((await items.read('one')).raw).toEqual(answer.body)
    })

    it('reads a body with empty Content-Type and Content-Encoding headers as JSON', async () => {
      const headers = { 'content-type': '', 'content-encoding': '' }
      const answer = await api.post(items.path, items.body('one', { count: 1 }), { type: '', headers })
      expect(objectOf(answer, 201).spec).toEqual({ count: 1 })
    })

    it('accepts YAML as well as JSON', async () => {
      const yaml = `apiVersion: ${items.apiVersion}\nkind: Item\nmetadata:\n  name: from-yaml\nspec:\n  count: 3\n  tags: [a, b]\n`
      objectOf(await api.post(items.path, yaml, { type: 'application/yaml' }), 201)
      expect((await items.read('from-yaml')).spec).toEqual({ count: 3, tags: ['a', 'b'] })
    })

    it('refuses an existing name with 409 AlreadyExists and changes nothing', async () => {
      const first = await items.create('one', { title: 'first' })
      const refusal = refusalOf(await api.post(items.path, items.body('one', {})), 409, 'AlreadyExists')
      expect(refusal.message).toContain('one')
      expect((await items.read('one')).raw).toEqual(first.raw)
    })

    it('lets exactly one of many creates with the same name win', async () => {
      const answers = await Promise.all(
        Array.from({ length: 12 }, (_, n) => api.post(items.path, items.body('raced', { count: n }))),
      )
      const winners = answers.filter(({ status }) => status === 201)
      expect(winners).toHaveLength(1)
      for (const answer of answers) if (answer.status !== 201) refusalOf(answer, 409, 'AlreadyExists')
      const [winner] = winners
      expect((await items.read('raced')).raw).toEqual(winner?.body)
    })

    it('makes a name from generateName and five characters', async () => {
      const made = objectOf(
        await api.post(items.path, items.body(undefined, {}, { generateName: 'gen-' })),
        201,
      )
      expect(made.metadata.name).toMatch(/^gen-[a-z0-9]{5}$/)
      const again = objectOf(
        await api.post(items.path, items.body(undefined, {}, { generateName: 'gen-' })),
        201,
      )
      expect(again.metadata.name).not.toBe(made.metadata.name)
    })

    it('truncates a generateName that is too long', async () => {
      const { metadata } = objectOf(
        await api.post(items.path, items.body(undefined, {}, { generateName: 'x'.repeat(300) })),
        201,
      )
      expect(metadata.name).toHaveLength(253)
      expect((await items.read(metadata.name)).metadata.uid).toBe(metadata.uid)
    })

    it('prefers name to generateName', async () => {
      const made = await items.create('named', {}, { generateName: 'gen-' })
      expect(made.metadata.name).toBe('named')
    })

    it('refuses an object without any name with 422', async () => {
      const refusal = refusalOf(await api.post(items.path, items.body(undefined, {})), 422)
      expect(refusal.causes.map(({ field }) => field)).toContain('metadata.name')
    })

    it('drops nulls of fields that are not nullable, as Go clients send them', async () => {
      const nulls = { title: null, tags: null, deep: { text: null }, parts: [{ id: 'a', name: null }] }
      const made = await items.create('one', { count: 1, ...nulls })
      const kept = { deep: {}, parts: [{ id: 'a', name: null }] }
      expect(made.spec).toEqual({ count: 1, ...kept })
      const replaced = objectOf(await api.put(items.at('one'), items.body('one', { rank: 'b', ...nulls })))
      expect(replaced.spec).toEqual({ rank: 'b', ...kept })
      const operations = [{ op: 'replace', path: '/spec/rank', value: null }]
      expect(objectOf(await api.jsonPatch(items.at('one'), operations)).spec).toEqual(kept)
      const yaml = `apiVersion: ${items.apiVersion}\nkind: Item\nmetadata:\n  name: two\nspec:\n`
      expect(objectOf(await api.post(items.path, yaml, { type: 'application/yaml' }), 201).spec).toEqual({})
    })

    describe('with unknown metadata', () => {
      const owner = { apiVersion: 'v1', kind: 'X', name: 'a', uid: 'u-1', odd: true }
      const metadata = { odd: 1, ownerReferences: [owner] }
      const applied = { type: 'application/apply-patch+yaml' }
      const writes: [string, (query: string) => Promise<Answer>][] = [
        ['a creation', query => api.post(items.path + query, items.body('two', {}, metadata))],
        ['a replacement', query => api.put(items.at('one') + query, items.body('one', {}, metadata))],
        ['a patch', query => api.mergePatch(items.at('one') + query, { metadata })],
        [
          'an apply',
          query => api.mergePatch(items.at('one') + query, items.body('one', {}, metadata), applied),
        ],
      ]

      it.each(writes)('%s drops it with a warning, and refuses it under Strict', async (_what, write) => {
        await items.create('one', {})
        const warned = await write('?fieldValidation=Warn&fieldManager=a')
        expect(objectOf(warned, warned.status).raw.metadata).not.toHaveProperty('odd')
        const field = 'metadata.ownerReferences[0].odd'
        expect(warned.headers.get('warning')).toBe(
          `299 - "unknown field \\"metadata.odd\\"", 299 - "unknown field \\"${field}\\""`,
        )
        const ignored = await write('?fieldValidation=Ignore&fieldManager=a')
        expect(ignored.headers.get('warning')).toBeNull()
        const refusal = refusalOf(await write('?fieldValidation=Strict&fieldManager=a'), 400)
        expect(refusal.causes.map(cause => cause.field)).toEqual(['metadata.odd', field])
      })
    })

    it('refuses invalid owners with 422', async () => {
      const owner = { name: 'a', uid: 'u-1' }
      const metadata = {
        ownerReferences: [
          { apiVersion: 'a/b/c', kind: 'X', ...owner },
          { apiVersion: 'v1', kind: 'Event', ...owner },
        ],
      }
      const refusal = refusalOf(await api.post(items.path, items.body('one', {}, metadata)), 422)
      expect(refusal.causes.map(({ field }) => field)).toEqual([
        'metadata.ownerReferences[0].apiVersion',
        'metadata.ownerReferences[1]',
      ])
    })

    it('warns about a new finalizer without a domain', async () => {
      const finalizers = ['hold', 'orphan', 'example.com/hold']
      const made = await api.post(items.path, items.body('one', {}, { finalizers }))
      expect(made.headers.get('warning')).toMatch(/^299 - "metadata.finalizers: \\"hold\\": prefer [^"]*"$/)
      const changed = await api.mergePatch(items.at('one'), { spec: { count: 1 } })
      expect(changed.headers.get('warning')).toBeNull()
    })

    it('keeps one of two equal owners, with a warning', async () => {
      const owner = { apiVersion: 'v1', kind: 'X', name: 'a', uid: 'u-1', controller: true }
      const ownerReferences = [owner, { ...owner, controller: false }, owner]
      const answer = await api.post(items.path, items.body('one', {}, { ownerReferences }))
      expect(objectOf(answer, 201).raw.metadata).toMatchObject({
        ownerReferences: ownerReferences.slice(0, 2),
      })
      expect(answer.headers.get('warning')).toMatch(/duplicate UID\(s\) observed: u-1"$/)
    })

    it('refuses null as an item of a list with 422', async () => {
      const refusal = refusalOf(await api.post(items.path, items.body('one', { tags: [null] })), 422)
      expect(refusal.causes.map(({ field }) => field)).toEqual(['spec.tags[0]'])
    })

    it.each([
      ['another kind', { kind: 'Device' }],
      ['another group version', { apiVersion: 'demo.example.com/v1' }],
      ['no kind', { kind: undefined }],
      ['no apiVersion', { apiVersion: undefined }],
    ])('refuses a body of %s on the route with 400 and stores nothing', async (_what, other) => {
      const body = { ...items.body('stray', { size: 1 }), ...other }
      const missing = Object.values(other)[0] === undefined
      const answer = await api.post(items.path, body)
      // Kubernetes fills in missing fields from the route.
      if (missing && answer.status === 201) expect(objectOf(answer, 201).kind).toBe('Item')
      else {
        refusalOf(answer, 400)
        refusalOf(await api.get(items.at('stray')), 404)
      }
    })
  })

  describe('replace', () => {
    it('replaces the whole object if the version is current', async () => {
      const first = await items.create('one', { title: 'first', count: 1 }, { labels: { 'x.com/a': 'b' } })
      const { version } = first.metadata
      const second = objectOf(await api.put(items.at('one'), items.body('one', { count: 2 }, { version })))
      expect(second.spec).toEqual({ count: 2 })
      expect(second.metadata.labels).toEqual({})
      expect(Number(second.metadata.version)).toBeGreaterThan(Number(version))
      const { resourceVersion } = second.metadata
      objectOf(await api.put(items.at('one'), items.body('one', { title: 'x' }, { resourceVersion })))
      expect((await items.read('one')).spec).toEqual({ title: 'x' })
    })

    it('refuses a stale version with 409 Conflict, in either field', async () => {
      const { metadata } = await items.create('one', { count: 1 })
      await api.put(items.at('one'), items.body('one', { count: 2 }))
      for (const stale of [{ version: metadata.version }, { resourceVersion: metadata.version }]) {
        refusalOf(await api.put(items.at('one'), items.body('one', { count: 3 }, stale)), 409, 'Conflict')
      }
      expect((await items.read('one')).spec).toEqual({ count: 2 })
    })

    it('goes by resourceVersion if version is another one', async () => {
      const { metadata: first } = await items.create('one', { count: 1 })
      const { metadata: second } = objectOf(await api.put(items.at('one'), items.body('one', { count: 2 })))
      const stale = { version: second.version, resourceVersion: first.version }
      const refusal = refusalOf(
        await api.put(items.at('one'), items.body('one', { count: 3 }, stale)),
        409,
        'Conflict',
      )
      expect(refusal.message).toContain('take out metadata.version and metadata.resourceVersion')
      expect((await items.read('one')).spec).toEqual({ count: 2 })
      // Kubernetes clients set the latest resourceVersion and carry the other one along.
      const latest = { version: first.version, resourceVersion: second.version }
      expect(objectOf(await api.put(items.at('one'), items.body('one', { count: 4 }, latest))).spec).toEqual({
        count: 4,
      })
    })

    it.each(['absent', 'empty', 'null'])(
      'with a stale version and resourceVersion %s names the field to take out',
      async how => {
        const { metadata } = await items.create('one', { count: 1 })
        await api.put(items.at('one'), items.body('one', { count: 2 }))
        const forced = {
          version: metadata.version,
          ...(how !== 'absent' && { resourceVersion: how === 'empty' ? '' : null }),
        }
        const refusal = refusalOf(
          await api.put(items.at('one'), items.body('one', { count: 3 }, forced)),
          409,
          'Conflict',
        )
        expect(refusal.message).toMatch(/take out metadata\.version to change any version$/)
        objectOf(await api.put(items.at('one'), items.body('one', { count: 3 }, { ...forced, version: '' })))
        expect((await items.read('one')).spec).toEqual({ count: 3 })
      },
    )

    it('refuses a stale version even if the content would not change', async () => {
      await items.create('one', { count: 1 })
      const answer = await api.put(items.at('one'), items.body('one', { count: 1 }, { version: '1' }))
      refusalOf(answer, 409, 'Conflict')
    })

    it('is unconditional without a version', async () => {
      await items.create('one', { count: 1 })
      for (const count of [2, 3]) objectOf(await api.put(items.at('one'), items.body('one', { count })))
      expect((await items.read('one')).spec).toEqual({ count: 3 })
    })

    it('refuses the uid of another object of the same name with 409', async () => {
      const { metadata } = await items.create('one', { count: 1 })
      await api.delete(items.at('one'))
      await items.create('one', { count: 2 })
      const answer = await api.put(items.at('one'), items.body('one', { count: 3 }, { uid: metadata.uid }))
      refusalOf(answer, 409, 'Conflict')
      expect((await items.read('one')).spec).toEqual({ count: 2 })
    })

    it('does not create: 404 for a missing object', async () => {
      refusalOf(await api.put(items.at('nobody'), items.body('nobody', {})), 404)
      refusalOf(await api.get(items.at('nobody')), 404)
    })

    it('refuses a name that differs from the path with 400', async () => {
      await items.create('one', { count: 1 })
      refusalOf(await api.put(items.at('one'), items.body('two', { count: 2 })), 400)
      expect((await items.read('one')).spec).toEqual({ count: 1 })
      refusalOf(await api.get(items.at('two')), 404)
    })

    it('refuses a body of another kind with 400', async () => {
      await items.create('one', { count: 1 })
      refusalOf(await api.put(items.at('one'), devices.body('one', { size: 1 })), 400)
      expect((await items.read('one')).spec).toEqual({ count: 1 })
    })

    it('lets exactly one of many writers with one version win', async () => {
      const { metadata } = await items.create('one', { count: 0 })
      const { version } = metadata
      const answers = await Promise.all(
        Array.from({ length: 12 }, (_, n) =>
          api.put(items.at('one'), items.body('one', { count: n + 1 }, { version })),
        ),
      )
      expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
      for (const answer of answers) if (answer.status !== 200) refusalOf(answer, 409, 'Conflict')
    })
  })

  describe('patch', () => {
    it('merges a merge patch: null removes, arrays are replaced, the rest stays', async () => {
      await items.create('one', { title: 'a', count: 1, tags: ['x', 'y'], deep: { flag: true, text: 't' } })
      const patched = objectOf(
        await api.mergePatch(items.at('one'), { spec: { count: null, tags: ['z'], deep: { text: 'u' } } }),
      )
      expect(patched.spec).toEqual({ title: 'a', tags: ['z'], deep: { flag: true, text: 'u' } })
      expect((await items.read('one')).raw).toEqual(patched.raw)
    })

    it('applies every operation of a JSON patch', async () => {
      await items.create('one', { title: 'a', count: 1, tags: ['x', 'y'] })
      const patched = objectOf(
        await api.jsonPatch(items.at('one'), [
          { op: 'test', path: '/spec/title', value: 'a' },
          { op: 'replace', path: '/spec/count', value: 2 },
          { op: 'add', path: '/spec/tags/-', value: 'z' },
          { op: 'remove', path: '/spec/tags/0' },
          { op: 'copy', from: '/spec/title', path: '/spec/rank' },
          { op: 'move', from: '/spec/title', path: '/spec/level' },
        ]),
      )
      expect(patched.spec).toEqual({ count: 2, tags: ['y', 'z'], rank: 'a', level: 'a' })
    })

    it('applies all operations of a JSON patch or none', async () => {
      const made = await items.create('one', { count: 1 })
      const answer = await api.jsonPatch(items.at('one'), [
        { op: 'replace', path: '/spec/count', value: 2 },
        { op: 'test', path: '/spec/title', value: 'not there' },
      ])
      expect([409, 422]).toContain(answer.status)
      refusalOf(answer, answer.status)
      expect((await items.read('one')).raw).toEqual(made.raw)
    })

    it.each([
      'application/strategic-merge-patch+json',
      'application/apply-patch+cbor',
      'application/json',
      'text/plain',
    ])('refuses %s with 415', async type => {
      await items.create('one', { count: 1 })
      refusalOf(await api.request('PATCH', items.at('one'), { spec: { count: 2 } }, { type }), 415)
      expect((await items.read('one')).spec).toEqual({ count: 1 })
    })

    it('loses none of many concurrent patches', async () => {
      await items.create('one', {})
      const keys = Array.from({ length: 16 }, (_, n) => `k${n}`)
      const answers = await Promise.all(
        keys.map(key => api.mergePatch(items.at('one'), { metadata: { annotations: { [key]: 'set' } } })),
      )
      for (const answer of answers) objectOf(answer)
      expect(Object.keys((await items.read('one')).metadata.annotations).sort()).toEqual(keys.sort())
    })

    it('with a stale version is refused with 409', async () => {
      const { metadata } = await items.create('one', { count: 1 })
      await api.mergePatch(items.at('one'), { spec: { count: 2 } })
      for (const field of ['version', 'resourceVersion']) {
        const patch = { metadata: { [field]: metadata.version }, spec: { count: 3 } }
        refusalOf(await api.mergePatch(items.at('one'), patch), 409, 'Conflict')
      }
      expect((await items.read('one')).spec).toEqual({ count: 2 })
    })

    it('goes by resourceVersion if it has another version too', async () => {
      const { metadata: first } = await items.create('one', { count: 1 })
      const { metadata: second } = objectOf(await api.mergePatch(items.at('one'), { spec: { count: 2 } }))
      const stale = { version: second.version, resourceVersion: first.version }
      const replaced = (versions: object, count: number) => [
        ...Object.entries(versions).map(([field, value]) => ({
          op: 'replace',
          path: `/metadata/${field}`,
          value,
        })),
        { op: 'replace', path: '/spec/count', value: count },
      ]
      refusalOf(
        await api.mergePatch(items.at('one'), { metadata: stale, spec: { count: 3 } }),
        409,
        'Conflict',
      )
      refusalOf(await api.jsonPatch(items.at('one'), replaced(stale, 3)), 409, 'Conflict')
      const latest = { version: first.version, resourceVersion: second.version }
      const patched = objectOf(
        await api.mergePatch(items.at('one'), { metadata: latest, spec: { count: 4 } }),
      )
      objectOf(
        await api.jsonPatch(
          items.at('one'),
          replaced({ ...latest, resourceVersion: patched.metadata.version }, 5),
        ),
      )
      expect((await items.read('one')).spec).toEqual({ count: 5 })
    })

    it('with one stale version names that field alone to take out', async () => {
      const { metadata } = await items.create('one', { count: 1 })
      await api.mergePatch(items.at('one'), { spec: { count: 2 } })
      for (const field of ['version', 'resourceVersion']) {
        const value = metadata.version
        const patch = {
          metadata: { [field]: value, ...(field === 'version' && { labels: { 'x.com/a': 'b' } }) },
        }
        const merged = refusalOf(await api.mergePatch(items.at('one'), patch), 409, 'Conflict')
        expect(merged.message).toMatch(new RegExp(`take out metadata\\.${field} to change any version$`))
        const operations = [{ op: 'replace', path: `/metadata/${field}`, value }]
        refusalOf(await api.jsonPatch(items.at('one'), operations), 409, 'Conflict')
      }
      // A client forces its patch by clearing the version.
      objectOf(
        await api.mergePatch(items.at('one'), { metadata: { resourceVersion: null }, spec: { count: 3 } }),
      )
      expect((await items.read('one')).spec).toEqual({ count: 3 })
    })

    it('cannot rename, change the kind or create', async () => {
      await items.create('one', { count: 1 })
      for (const patch of [{ metadata: { name: 'two' } }, { kind: 'Device' }, { apiVersion: 'a.b/v1' }]) {
        refusalOf(await api.mergePatch(items.at('one'), patch), 400)
      }
      refusalOf(await api.mergePatch(items.at('nobody'), { spec: {} }), 404)
      expect((await items.list()).names).toEqual(['one'])
    })

    it('is validated as a whole object', async () => {
      await items.create('one', { count: 1 })
      const refusal = refusalOf(await api.mergePatch(items.at('one'), { spec: { count: 101 } }), 422)
      expect(refusal.causes.map(({ field }) => field)).toEqual(['spec.count'])
      expect((await items.read('one')).spec).toEqual({ count: 1 })
    })
  })

  describe('a write that changes nothing', () => {
    it('keeps the version and sends no event, for PUT and both patches', async () => {
      const made = await items.create('one', { count: 1, deep: { flag: true } })
      const events = await eventsOf(async () => {
        const answers = [
          await api.put(items.at('one'), made.raw),
          await api.put(items.at('one'), items.body('one', { deep: { flag: true }, count: 1 })),
          await api.mergePatch(items.at('one'), { spec: { count: 1 } }),
          await api.mergePatch(items.at('one'), {}),
          await api.jsonPatch(items.at('one'), [{ op: 'replace', path: '/spec/count', value: 1 }]),
          await api.jsonPatch(items.at('one'), []),
        ]
        for (const answer of answers) expect(objectOf(answer).raw).toEqual(made.raw)
      })
      expect(events).toEqual([])
    })

    it('ignores changed server-owned fields and keeps their stored values', async () => {
      const made = await items.create('one', { count: 1 })
      const own = {
        creationTimestamp: '2001-01-01T00:00:00.000Z',
        deletionTimestamp: '2001-01-01T00:00:00.000Z',
        generation: 99,
        managedFields: [{ manager: 'me' }],
        selfLink: '/nowhere',
      }
      const answer = await api.put(items.at('one'), items.body('one', { count: 1 }, own))
      expect(objectOf(answer).raw).toEqual(made.raw)
    })
  })

  describe('dryRun', () => {
    it('of a create returns the object and stores nothing', async () => {
      const events = await eventsOf(async () => {
        const answer = await api.post(`${items.path}?dryRun=All`, items.body('dry', { count: 1 }))
        expect(answer.status).toBe(201)
        const { metadata, spec } = fieldsOf(answer.body)
        expect(spec).toEqual({ count: 1 })
        expect(fieldsOf(metadata).name).toBe('dry')
        refusalOf(await api.get(items.at('dry')), 404)
      })
      expect(events).toEqual([])
    })

    it('of an update and a delete leaves the object as it is', async () => {
      const made = await items.create('one', { count: 1 }, { finalizers: ['x.com/f'] })
      const free = await items.create('free', { count: 1 })
      const events = await eventsOf(async () => {
        expect(
          objectOf(await api.put(`${items.at('one')}?dryRun=All`, items.body('one', { count: 2 }))).spec,
        ).toEqual({ count: 2 })
        objectOf(await api.mergePatch(`${items.at('one')}?dryRun=All`, { spec: { count: 3 } }))
        objectOf(await api.delete(`${items.at('one')}?dryRun=All`))
        objectOf(await api.delete(`${items.at('free')}?dryRun=All`))
        objectOf(await api.delete(items.at('free'), { dryRun: ['All'] }))
      })
      expect(events).toEqual([])
      expect((await items.read('one')).raw).toEqual(made.raw)
      expect((await items.read('free')).raw).toEqual(free.raw)
    })

    it('refuses what a real write refuses', async () => {
      await items.create('one', { code: 'taken' })
      const dry = `${items.path}?dryRun=All`
      refusalOf(await api.post(dry, items.body('one', {})), 409, 'AlreadyExists')
      refusalOf(await api.post(dry, items.body('two', { code: 'taken' })), 409, 'AlreadyExists')
      refusalOf(await api.post(dry, items.body('two', { count: -1 })), 422)
    })

    it('accepts no value but All', async () => {
      refusalOf(await api.post(`${items.path}?dryRun=Some`, items.body('dry', {})), 400)
      refusalOf(await api.get(items.at('dry')), 404)
    })
  })

  describe('fieldValidation', () => {
    const unknown = { count: 1, colour: 'red', deep: { flag: true, extra: 1 } }

    it('Strict refuses an unknown field with 400 and names it', async () => {
      const answer = await api.post(`${items.path}?fieldValidation=Strict`, items.body('one', unknown))
      const { message } = refusalOf(answer, 400)
      expect(message).toContain('colour')
      expect(message).toContain('extra')
      refusalOf(await api.get(items.at('one')), 404)
    })

    it('Warn, the default, keeps the field and says so in a Warning header', async () => {
      for (const query of ['', '?fieldValidation=Warn']) {
        const answer = await api.post(`${items.path}${query}`, items.body('one', unknown))
        expect(objectOf(answer, 201).spec).toEqual(unknown)
        expect(answer.headers.get('warning')).toMatch(/^299 .*colour/)
        await api.delete(items.at('one'))
      }
    })

    it('Ignore keeps the field silently', async () => {
      const answer = await api.post(`${items.path}?fieldValidation=Ignore`, items.body('one', unknown))
      expect(objectOf(answer, 201).spec).toEqual(unknown)
      expect(answer.headers.get('warning')).toBeNull()
    })

    it('lets a patch be that leaves a stored unknown field as it was', async () => {
      await items.create('one', unknown)
      const strict = `${items.at('one')}?fieldValidation=Strict`
      const patched = await api.mergePatch(strict, { spec: { count: 2 } })
      expect(objectOf(patched, 200).spec).toEqual({ ...unknown, count: 2 })
      const warned = await api.jsonPatch(items.at('one'), [{ op: 'add', path: '/spec/other', value: 1 }])
      expect(warned.headers.get('warning')).toMatch(/^299 - "unknown field \\"spec.other\\""$/)
      const type = 'application/apply-patch+yaml'
      const apply = (spec: unknown) =>
        api.request('PATCH', `${strict}&fieldManager=a`, items.body('one', spec), { type })
      objectOf(await apply({ title: 'applied' }), 200)
      for (const answer of [
        await api.mergePatch(strict, { spec: { deep: { extra: 2 } } }),
        await api.jsonPatch(strict, [{ op: 'replace', path: '/spec/deep/extra', value: 2 }]),
        await apply({ deep: { extra: 1 } }),
        await api.put(strict, items.body('one', unknown)),
      ])
        expect(refusalOf(answer, 400).message).toContain('"spec.deep.extra"')
    })

    it('reports unknown fields of the metadata and the content together', async () => {
      const body = items.body('one', { count: 1, colour: 'red' }, { colour: 'red' })
      const { causes } = refusalOf(await api.post(`${items.path}?fieldValidation=Strict`, body), 400)
      expect(causes.map(({ field }) => field)).toEqual(['metadata.colour', 'spec.colour'])
    })

    it.each([
      ['POST', 'application/json'],
      ['POST', 'application/yaml'],
      ['PUT', 'application/json'],
      ['PUT', 'application/yaml'],
      ['PATCH', 'application/apply-patch+yaml'],
      ['PATCH', 'application/merge-patch+json'],
    ])('names duplicate and unknown fields of a %s of %s together', async (method, type) => {
      await items.create('one', {})
      const isYaml = type.endsWith('yaml')
      const name = method === 'POST' ? 'two' : 'one'
      const path = method === 'POST' ? items.path : items.at('one')
      const body = isYaml
        ? `apiVersion: ${items.apiVersion}\nkind: Item\nmetadata: {name: ${name}}\nspec:\n  count: 2\n  count: 3\n  colour: red\n`
        : `{"apiVersion":"${items.apiVersion}","kind":"Item","metadata":{"name":"${name}"},"spec":{"count":2,"count":3,"colour":"red"}}`
      const write = (validation: string) =>
        api.request(method, `${path}?fieldManager=me&fieldValidation=${validation}`, body, { type })
      const faults = [
        isYaml ? 'line 6: key "count" already set in map' : 'duplicate field "spec.count"',
        'unknown field "spec.colour"',
      ]
      const { message, causes } = refusalOf(await write('Strict'), 400)
      expect(message).toBe(`strict decoding error: ${faults.join(', ')}`)
      expect(causes.map(cause => cause.message)).toEqual(faults)
      const warned = await write('Warn')
      expect(objectOf(warned, method === 'POST' ? 201 : 200).spec).toEqual({ count: 3, colour: 'red' })
      const warnings = faults.map(fault => `299 - ${JSON.stringify(fault)}`).join(', ')
      expect(warned.headers.get('warning')).toBe(warnings)
      if (method === 'POST') await api.delete(items.at('two'))
      expect((await write('Ignore')).headers.get('warning')).toBeNull()
    })

    it('does not warn if every field is known', async () => {
      const answer = await api.post(items.path, items.body('one', { count: 1, deep: { flag: true } }))
      expect(objectOf(answer, 201).metadata.name).toBe('one')
      expect(answer.headers.get('warning')).toBeNull()
    })

    it.each(['POST', 'PUT', 'PATCH'])(
      'Strict refuses a duplicate field in a %s, Warn warns',
      async method => {
        await items.create('one', { count: 1 })
        const head = `"apiVersion":"${items.apiVersion}","kind":"Item"`
        const write = (query: string) => {
          const metadata = method === 'POST' ? '{"generateName":"two-"}' : '{"name":"one"}'
          const body = `{${head},"metadata":${metadata},"spec":{"count":2,"count":3}}`
          const path = method === 'POST' ? items.path : items.at('one')
          const type = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json'
          return api.request(method, `${path}${query}`, body, { type })
        }
        const { message, causes } = refusalOf(await write('?fieldValidation=Strict'), 400)
        expect(message).toContain('duplicate field "spec.count"')
        expect(causes.map(({ field }) => field)).toEqual(['spec.count'])
        const warned = await write('')
        expect(objectOf(warned, method === 'POST' ? 201 : 200).spec).toEqual({ count: 3 })
        expect(warned.headers.get('warning')).toMatch(/^299 - "duplicate field \\"spec.count\\""/)
        const silent = await write('?fieldValidation=Ignore')
        expect(silent.headers.get('warning')).toBeNull()
      },
    )

    it('accepts no other value', async () => {
      refusalOf(await api.post(`${items.path}?fieldValidation=Maybe`, items.body('one', {})), 400)
    })

    it('does not apply to a closed schema: it always responds with 422', async () => {
      for (const mode of ['Strict', 'Warn', 'Ignore']) {
        const answer = await api.post(
          `${vaults.path}?fieldValidation=${mode}`,
          vaults.body('v', { key: 'k', other: 1 }),
        )
        if (mode === 'Strict' && answer.status === 400) refusalOf(answer, 400)
        else expect(refusalOf(answer, 422).causes.map(({ field }) => field)).toContain('spec.other')
      }
      refusalOf(await api.get(vaults.at('v')), 404)
    })
  })

  describe('validation', () => {
    it('reports every violation at once, each with its field', async () => {
      const spec = {
        title: 'more than ten characters',
        mode: 'sideways',
        link: 'no uri at all',
        count: 101,
        ratio: 'much',
        parts: [{ id: 'fine' }, {}, { id: 7 }],
        deep: { flag: 'yes' },
      }
      const { causes } = refusalOf(await api.post(items.path, items.body('bad', spec)), 422, 'Invalid')
      const fields = [
        'spec.count',
        'spec.deep.flag',
        'spec.link',
        'spec.mode',
        'spec.parts[1].id',
        'spec.parts[2].id',
        'spec.ratio',
        'spec.title',
      ]
      expect([...new Set(causes.map(({ field }) => field))].sort()).toEqual(fields)
      refusalOf(await api.get(items.at('bad')), 404)
    })

    it('reports violations of metadata and content together', async () => {
      const body = items.body(
        'Bad_Name',
        { count: -1 },
        { labels: { 'a/b/c': 'x', fine: 'no spaces allowed' } },
      )
      const { causes } = refusalOf(await api.post(items.path, body), 422)
      const fields = causes.map(({ field }) => field ?? '').join(' ')
      expect(fields).toContain('metadata.name')
      expect(fields).toContain('metadata.labels')
      expect(fields).toContain('spec.count')
    })

    it('accepts values at their bounds', async () => {
      await items.create('low', { count: 0, title: 'x' })
      await items.create('high', { count: 100, title: 'ten chars!' })
      refusalOf(await api.post(items.path, items.body('empty', { title: '' })), 422)
    })

    it('counts the characters of a string, not its UTF-16 units', async () => {
      await items.create('emoji', { title: '😀'.repeat(10) })
      refusalOf(await api.post(items.path, items.body('more', { title: '😀'.repeat(11) })), 422)
    })

    it('runs on the object to be stored, also for an update', async () => {
      await items.create('one', { count: 1 })
      refusalOf(await api.put(items.at('one'), items.body('one', { count: 1000 })), 422)
      expect((await items.read('one')).spec).toEqual({ count: 1 })
    })

    it('requires required fields', async () => {
      const { causes } = refusalOf(await api.post(devices.path, devices.body('d', {})), 422)
      expect(causes.map(({ field }) => field)).toEqual(['spec.size'])
      expect(
        refusalOf(await api.post(devices.path, { ...devices.body('d', {}), spec: undefined }), 422).causes,
      ).not.toEqual([])
    })
  })

  describe('finalizers and deletion', () => {
    it('removes an object without finalizers at once and returns it', async () => {
      await items.create('one', { count: 1 })
      const events = await eventsOf(async () => {
        const gone = objectOf(await api.delete(items.at('one')))
        expect(gone.spec).toEqual({ count: 1 })
        refusalOf(await api.get(items.at('one')), 404)
      })
      expect(events).toEqual(['DELETED one'])
      refusalOf(await api.delete(items.at('one')), 404)
    })

    it('marks an object with finalizers as deleting and keeps it readable', async () => {
      const made = await items.create('one', { count: 1 }, { finalizers: ['x.com/a', 'x.com/b'] })
      const marked = objectOf(await api.delete(items.at('one')))
      expect(marked.metadata.deletionTimestamp).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
      expect(marked.metadata.generation).toBe(made.metadata.generation + 1)
      expect(Number(marked.metadata.version)).toBeGreaterThan(Number(made.metadata.version))
      expect((await items.read('one')).raw).toEqual(marked.raw)
      expect((await items.list()).names).toEqual(['one'])
    })

    it('changes nothing if a deleting object is deleted again', async () => {
      await items.create('one', {}, { finalizers: ['x.com/a'] })
      const marked = objectOf(await api.delete(items.at('one')))
      const events = await eventsOf(async () => {
        expect(objectOf(await api.delete(items.at('one'))).raw).toEqual(marked.raw)
      })
      expect(events).toEqual([])
    })

    it('lets no client set, move or clear the deletion time', async () => {
      const made = await items.create(
        'one',
        {},
        { finalizers: ['x.com/a'], deletionTimestamp: '2001-01-01T00:00:00Z' },
      )
      expect(made.metadata.deletionTimestamp).toBeUndefined()
      const { metadata } = objectOf(await api.delete(items.at('one')))
      const without = items.body('one', {}, { finalizers: ['x.com/a'] })
      const moved = items.body(
        'one',
        {},
        { finalizers: ['x.com/a'], deletionTimestamp: '2031-01-01T00:00:00Z' },
      )
      await api.put(items.at('one'), without)
      await api.put(items.at('one'), moved)
      await api.mergePatch(items.at('one'), { metadata: { deletionTimestamp: null } })
      await api.jsonPatch(items.at('one'), [{ op: 'remove', path: '/metadata/deletionTimestamp' }])
      const now = await items.read('one')
      expect(now.metadata.deletionTimestamp).toBe(metadata.deletionTimestamp)
      expect(now.metadata.version).toBe(metadata.version)
    })

    it('lets finalizers of a deleting object be removed but not added', async () => {
      await items.create('one', {}, { finalizers: ['x.com/a', 'x.com/b'] })
      await api.delete(items.at('one'))
      for (const finalizers of [
        ['x.com/a', 'x.com/b', 'x.com/c'],
        ['x.com/a', 'x.com/c'],
      ]) {
        refusalOf(await api.mergePatch(items.at('one'), { metadata: { finalizers } }), 422)
      }
      const fewer = objectOf(await api.mergePatch(items.at('one'), { metadata: { finalizers: ['x.com/b'] } }))
      expect(fewer.metadata.finalizers).toEqual(['x.com/b'])
    })

    it('accepts other changes of a deleting object', async () => {
      await items.create('one', { count: 1 }, { finalizers: ['x.com/a'] })
      await api.delete(items.at('one'))
      expect(objectOf(await api.mergePatch(items.at('one'), { spec: { count: 2 } })).spec).toEqual({
        count: 2,
      })
    })

    it.each([
      ['a merge patch', (path: string) => api.mergePatch(path, { metadata: { finalizers: null } })],
      [
        'a JSON patch',
        (path: string) => api.jsonPatch(path, [{ op: 'remove', path: '/metadata/finalizers/0' }]),
      ],
      ['a PUT', (path: string) => api.put(path, items.body('one', { count: 1 }))],
    ])(
      'removes a deleting object by %s that empties its finalizers: one DELETED, in the same write',
      async (_how, empty) => {
        await items.create('one', { count: 1 }, { finalizers: ['x.com/a'] })
        await api.delete(items.at('one'))
        const events = await eventsOf(async () => {
          objectOf(await empty(items.at('one')))
          refusalOf(await api.get(items.at('one')), 404)
        })
        expect(events).toEqual(['DELETED one'])
      },
    )

    it('does not remove a live object whose finalizers are emptied', async () => {
      await items.create('one', {}, { finalizers: ['x.com/a'] })
      objectOf(await api.mergePatch(items.at('one'), { metadata: { finalizers: [] } }))
      expect((await items.read('one')).metadata.finalizers).toEqual([])
    })

    it('refuses a create with the name of a deleting object', async () => {
      await items.create('one', {}, { finalizers: ['x.com/a'] })
      await api.delete(items.at('one'))
      refusalOf(await api.post(items.path, items.body('one', {})), 409, 'AlreadyExists')
    })

    it('gives a later object of the same name another uid', async () => {
      const first = await items.create('one', {})
      await api.delete(items.at('one'))
      const second = await items.create('one', {})
      expect(second.metadata.uid).not.toBe(first.metadata.uid)
      expect(Number(second.metadata.version)).toBeGreaterThan(Number(first.metadata.version))
    })

    it('keeps finalizers as a set', async () => {
      const made = await items.create('one', {}, { finalizers: ['x.com/a', 'x.com/a', 'x.com/b'] })
      expect(made.metadata.finalizers).toEqual(['x.com/a', 'x.com/b'])
    })

    it.each([
      ['an empty one', ['']],
      ['one of 254 characters', ['x'.repeat(254)]],
      ['one that is no string', [7]],
      ['something else than a list', 'x.com/a'],
    ])('refuses %s among finalizers', async (_what, finalizers) => {
      const answer = await api.post(items.path, items.body('one', {}, { finalizers }))
      expect([400, 422]).toContain(answer.status)
      refusalOf(answer, answer.status)
      refusalOf(await api.get(items.at('one')), 404)
    })
  })

  describe('preconditions of a delete', () => {
    it('can be in the body or in the query, for uid and version', async () => {
      const { metadata } = await items.create('one', {})
      const other = '00000000-0000-4000-8000-000000000000'
      const refused = [
        () => api.delete(items.at('one'), { preconditions: { uid: other } }),
        () => api.delete(items.at('one'), { preconditions: { resourceVersion: '1' } }),
        () => api.delete(items.at('one'), { preconditions: { version: '1' } }),
        () => api.delete(`${items.at('one')}?uid=${other}`),
        () => api.delete(`${items.at('one')}?version=1`),
        () => api.delete(`${items.at('one')}?version=${metadata.version}&uid=${other}`),
      ]
      for (const refuse of refused) refusalOf(await refuse(), 409, 'Conflict')
      expect((await items.read('one')).metadata.version).toBe(metadata.version)
      const options = {
        kind: 'DeleteOptions',
        apiVersion: 'v1',
        preconditions: { uid: metadata.uid, resourceVersion: metadata.version },
      }
      objectOf(await api.delete(items.at('one'), options))
      refusalOf(await api.get(items.at('one')), 404)
    })

    it('that hold in the query let the delete through', async () => {
      const { metadata } = await items.create('one', {})
      objectOf(await api.delete(`${items.at('one')}?uid=${metadata.uid}&version=${metadata.version}`))
      refusalOf(await api.get(items.at('one')), 404)
    })

    it('go by resourceVersion if version is another one', async () => {
      const { metadata } = await items.create('one', {})
      const stale = { version: metadata.version, resourceVersion: '1' }
      const refusal = refusalOf(await api.delete(items.at('one'), { preconditions: stale }), 409, 'Conflict')
      expect(refusal.message).toContain(
        'take out the precondition version and the precondition resourceVersion',
      )
      refusalOf(
        await api.delete(`${items.at('one')}?version=${metadata.version}&resourceVersion=1`),
        409,
        'Conflict',
      )
      const latest = { version: '1', resourceVersion: metadata.version }
      objectOf(await api.delete(items.at('one'), { preconditions: latest }))
      refusalOf(await api.get(items.at('one')), 404)
    })

    it('with a version that is not a number are refused with 400', async () => {
      await items.create('one', {})
      refusalOf(await api.delete(`${items.at('one')}?version=latest`), 400)
      refusalOf(await api.delete(items.at('one'), { preconditions: { version: 7 } }), 400)
      await items.read('one')
    })

    it('can have the policy in the query or the body; an unknown policy is refused', async () => {
      await items.create('one', {}, { finalizers: ['d/f'] })
      await items.create('two', {}, { finalizers: ['d/f'] })
      refusalOf(await api.delete(`${items.at('one')}?propagationPolicy=Sideways`), 422)
      refusalOf(await api.delete(items.at('one'), { propagationPolicy: 'Sideways' }), 422)
      const both = { propagationPolicy: 'Background', orphanDependents: true }
      refusalOf(await api.delete(items.at('one'), both), 422)
      const one = objectOf(await api.delete(`${items.at('one')}?propagationPolicy=Foreground`))
      expect(one.metadata.finalizers).toEqual(['d/f', 'foregroundDeletion'])
      const two = objectOf(await api.delete(items.at('two'), { orphanDependents: true }))
      expect(two.metadata.finalizers).toEqual(['d/f', 'orphan'])
      await items.create('three', {}, { finalizers: ['d/f'] })
      const three = objectOf(await api.delete(`${items.at('three')}?orphanDependents=true`))
      expect(three.metadata.finalizers).toEqual(['d/f', 'orphan'])
    })
  })

  describe('deleting a collection', () => {
    it('deletes the objects that the selectors match and returns them as a list', async () => {
      await items.create('a', { rank: 'x' }, { labels: { 'x.com/k': 'v' } })
      await items.create('b', { rank: 'x' })
      await items.create('c', { rank: 'y' }, { labels: { 'x.com/k': 'v' } })
      await items.create('d', { rank: 'x' }, { labels: { 'x.com/k': 'v' }, finalizers: ['x.com/f'] })
      const answer = await api.delete(`${items.path}?labelSelector=x.com/k%3Dv&fieldSelector=spec.rank%3Dx`)
      expect(answer.status).toBe(200)
      expect(fieldsOf(answer.body).kind).toBe('ItemList')
      expect((await items.list({ sort: 'metadata.name' })).names).toEqual(['b', 'c', 'd'])
      expect((await items.read('d')).metadata.deletionTimestamp).toBeDefined()
      expect((await items.read('c')).metadata.deletionTimestamp).toBeUndefined()
    })

    it('deletes the objects within bounds', async () => {
      for (const rank of ['a', 'b', 'c', 'd']) await items.create(rank, { rank })
      await items.create('none', {})
      const answer = await api.delete(`${items.path}?fieldSelector=spec.rank%3E=b,spec.rank%3Cd`)
      expect(answer.status).toBe(200)
      expect((await items.list({ sort: 'metadata.name' })).names).toEqual(['a', 'd', 'none'])
    })

    it('deletes nothing if a selector does not parse', async () => {
      await items.create('a', {})
      refusalOf(await api.delete(`${items.path}?labelSelector=a%20b`), 400)
      refusalOf(await api.delete(`${items.path}?fieldSelector=spec.nothing%3Dx`), 400)
      expect((await items.list()).names).toEqual(['a'])
    })
  })

  describe('generation', () => {
    it('increases with changes of the content and with the start of the deletion, not with changes of the metadata', async () => {
      const generation = async () => (await items.read('one')).metadata.generation
      await items.create('one', { count: 1 }, { finalizers: ['x.com/a'] })
      expect(await generation()).toBe(1)
      await api.mergePatch(items.at('one'), { metadata: { labels: { 'x.com/a': 'b' } } })
      expect(await generation()).toBe(1)
      await api.mergePatch(items.at('one'), { spec: { count: 2 } })
      expect(await generation()).toBe(2)
      await api.mergePatch(items.at('one'), { status: { phase: 'x' } })
      expect(await generation()).toBe(3)
      await api.delete(items.at('one'))
      expect(await generation()).toBe(4)
    })
  })

  describe('the status subresource', () => {
    beforeEach(() => devices.clear())

    it('keeps status out of ordinary writes, and spec out of status writes', async () => {
      const made = objectOf(
        await api.post(devices.path, { ...devices.body('d', { size: 1 }), status: { phase: 'Up' } }),
        201,
      )
      expect(made.status).toEqual({})
      const put = objectOf(
        await api.put(devices.at('d'), { ...devices.body('d', { size: 2 }), status: { phase: 'Up' } }),
      )
      expect([put.spec, put.status, put.metadata.generation]).toEqual([{ size: 2 }, {}, 2])
      const status = objectOf(
        await api.put(`${devices.at('d')}/status`, {
          ...devices.body('d', { size: 3 }),
          status: { phase: 'Up' },
        }),
      )
      expect([status.spec, status.status, status.metadata.generation]).toEqual([
        { size: 2 },
        { phase: 'Up' },
        2,
      ])
      const patched = objectOf(
        await api.mergePatch(`${devices.at('d')}/status`, { spec: { size: 9 }, status: { phase: 'Down' } }),
      )
      expect([patched.spec, patched.status]).toEqual([{ size: 2 }, { phase: 'Down' }])
      expect(objectOf(await api.get(`${devices.at('d')}/status`)).raw).toEqual(patched.raw)
    })

    it('validates status', async () => {
      await devices.create('d', { size: 1 })
      refusalOf(await api.mergePatch(`${devices.at('d')}/status`, { status: { phase: 'Sideways' } }), 422)
    })

    it('is 404 for a model that does not declare it', async () => {
      await items.create('one', {})
      refusalOf(await api.get(`${items.at('one')}/status`), 404)
      refusalOf(await api.put(`${items.at('one')}/status`, items.body('one', {})), 404)
    })

    it('lets PUT write status if it is not declared', async () => {
      await items.create('one', {})
      const put = objectOf(
        await api.put(items.at('one'), { ...items.body('one', {}), status: { phase: 'P' } }),
      )
      expect(put.status).toEqual({ phase: 'P' })
    })
  })

  describe('a unique index', () => {
    it('refuses a value in use with 409 and names index, value and holder', async () => {
      await items.create('holder', { code: 'c-1' })
      const refusal = refusalOf(
        await api.post(items.path, items.body('late', { code: 'c-1' })),
        409,
        'AlreadyExists',
      )
      const [cause] = refusal.causes
      expect(cause?.reason).toBe('FieldValueDuplicate')
      expect(cause?.field).toContain('spec.code')
      expect(cause?.message).toContain('c-1')
      expect(cause?.message).toContain('holder')
      refusalOf(await api.get(items.at('late')), 404)
    })

    it('refuses an update to a value in use and leaves the object unchanged', async () => {
      await items.create('holder', { code: 'c-1' })
      const made = await items.create('other', { code: 'c-2' })
      refusalOf(await api.mergePatch(items.at('other'), { spec: { code: 'c-1' } }), 409, 'AlreadyExists')
      expect((await items.read('other')).raw).toEqual(made.raw)
    })

    it('releases a value on delete, on update and with the last finalizer', async () => {
      await items.create('a', { code: 'v' })
      await api.delete(items.at('a'))
      await items.create('b', { code: 'v' })
      objectOf(await api.mergePatch(items.at('b'), { spec: { code: 'w' } }))
      await items.create('c', { code: 'v' }, { finalizers: ['x.com/f'] })
      await api.delete(items.at('c'))
      refusalOf(await api.post(items.path, items.body('d', { code: 'v' })), 409, 'AlreadyExists')
      objectOf(await api.mergePatch(items.at('c'), { metadata: { finalizers: null } }))
      await items.create('d', { code: 'v' })
    })

    it('reserves each of several values', async () => {
      await items.create('a', { aliases: ['x', 'y', 'x'] })
      for (const aliases of [['y'], ['z', 'x']]) {
        refusalOf(await api.post(items.path, items.body('b', { aliases })), 409, 'AlreadyExists')
      }
      objectOf(await api.mergePatch(items.at('a'), { spec: { aliases: ['y', 'w'] } }))
      await items.create('b', { aliases: ['x', 'z'] })
      refusalOf(await api.post(items.path, items.body('c', { aliases: ['w'] })), 409, 'AlreadyExists')
    })

    it('distinguishes the empty string from no value', async () => {
      await items.create('none-1', {})
      await items.create('none-2', {})
      await items.create('empty', { code: '' })
      refusalOf(await api.post(items.path, items.body('empty-2', { code: '' })), 409, 'AlreadyExists')
    })

    it("does not conflict with the object's own value", async () => {
      await items.create('a', { code: 'v', count: 1 })
      objectOf(await api.put(items.at('a'), items.body('a', { code: 'v', count: 2 })))
      expect((await items.read('a')).spec).toEqual({ code: 'v', count: 2 })
    })

    it('lets exactly one of many writers of one value win', async () => {
      for (let round = 0; round < 20; round++) {
        const value = `r-${round}`
        const answers = await Promise.all(
          Array.from({ length: 6 }, (_, n) =>
            api.post(items.path, items.body(`w-${round}-${n}`, { code: value })),
          ),
        )
        expect(answers.map(({ status }) => status).sort()).toEqual([201, 409, 409, 409, 409, 409])
        expect((await items.list({ fieldSelector: `spec.code=${value}` })).names).toHaveLength(1)
      }
    })

    it('accepts at most 60 values per object', async () => {
      const aliases = Array.from({ length: 61 }, (_, n) => `alias-${n}`)
      refusalOf(await api.post(items.path, items.body('many', { aliases })), 422)
      await items.create('many', { aliases: aliases.slice(1) })
    })
  })

  describe('an index function that fails', () => {
    it.each(['throw', 'number'])(
      'refuses the write with 422 (%s), and the server keeps serving',
      async boom => {
        const refusal = refusalOf(await api.post(items.path, items.body('bad', { boom })), 422)
        expect(refusal.message).toContain('spec.boom')
        await items.create('one', { boom: 'fine' })
        refusalOf(await api.mergePatch(items.at('one'), { spec: { boom } }), 422)
        expect((await items.list()).names).toEqual(['one'])
      },
    )
  })

  describe('sizes', () => {
    it('accepts an object of 1 MiB and returns it complete', async () => {
      const text = 'x'.repeat(1024 * 1024)
      await items.create('large', { deep: { text } })
      expect((await items.read('large')).spec).toEqual({ deep: { text } })
    })

    it("refuses an object above the stores' limit with 413", async () => {
      const text = 'x'.repeat(2 * 1024 * 1024)
      refusalOf(await api.post(items.path, items.body('too-large', { deep: { text } })), 413)
      refusalOf(await api.get(items.at('too-large')), 404)
    })

    it("refuses an object with 413 if its unique values bring it above the stores' limit", async () => {
      const code = 'x'.repeat(800_000)
      refusalOf(await api.post(items.path, items.body('too-large', { code })), 413)
      const aliases = Array.from({ length: 60 }, (_, n) => `${n}-${'x'.repeat(13_000)}`)
      refusalOf(await api.post(items.path, items.body('too-large', { aliases })), 413)
      refusalOf(await api.get(items.at('too-large')), 404)
      await items.create('large', { code: code.slice(0, 490_000) })
      const other = items.body('large', { code: 'y'.repeat(490_000) })
      objectOf(await api.put(items.at('large'), other))
    })

    it('refuses a body of more than 3 MiB with 413', async () => {
      const text = 'x'.repeat(3 * 1024 * 1024)
      refusalOf(await api.post(items.path, items.body('too-large', { deep: { text } })), 413)
    })
  })

  it('that are pipelined on a connection happen in their order', async () => {
    const send = (method: string, body?: object, connection = 'keep-alive') => {
      const text = body === undefined ? '' : JSON.stringify(body)
      const headers = { host: 'localhost', connection, 'content-type': 'application/json' }
      const length = { 'content-length': String(text.length) }
      const path = method === 'POST' ? items.path : items.at('one')
      return requestText(`${method} ${path}`, { ...headers, ...length }, text)
    }
    const requests = [
      send('POST', items.body('one', { count: 1 })),
      send('GET'),
      ...[2, 3, 4, 5].map(count => send('PUT', items.body('one', { count }))),
      send('GET'),
      send('DELETE'),
      send('GET', undefined, 'close'),
    ]
    const first = await sendRaw(world.server.port, requests.join(''))
    const later = Array.from(first.text.matchAll(/HTTP\/1\.1 (\d+) [^{]*(\{[^\r]*\})/g))
    const answers = later.map(([, status, body = '']) => [Number(status), /"count":(\d)/.exec(body)?.[1]])
    expect([first.status, ...answers]).toEqual([
      201,
      [200, '1'],
      [200, '2'],
      [200, '3'],
      [200, '4'],
      [200, '5'],
      [200, '5'],
      [200, '5'],
      [404, undefined],
    ])
  })

  it('gives every write a unique version, higher than earlier ones', async () => {
    const versions: number[] = []
    for (let n = 0; n < 10; n++) {
      versions.push(Number((await items.create(`o-${n}`, { count: n })).metadata.version))
      versions.push(
        Number(
          objectOf(await api.mergePatch(items.at(`o-${n}`), { spec: { count: n + 1 } })).metadata.version,
        ),
      )
    }
    expect(versions).toEqual([...new Set(versions)].sort((a, b) => a - b))
  })

  it('returns the version of the deletion from a delete, as the watch does', async () => {
    await items.create('one', { count: 1 })
    const watch = await Watch.open(world.server.url, items.path)
    await watch.synced()
    const gone = objectOf(await api.delete(items.at('one')))
    await watch.until(({ story }) => story.includes('DELETED one'))
    expect(objectIn(watch.changes.at(-1)).metadata.version).toBe(gone.metadata.version)
    await watch.close()
  })
})
