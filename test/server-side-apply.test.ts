import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type Answer, type Api, type ApiObject, Collection, objectOf, refusalOf } from './support/api.ts'
import { arrayOf, type Fields, fieldsOf } from './support/json.ts'
import { objectIn, Watch } from './support/watch.ts'
import { type SharedWorld, startSharedWorld, stores } from './support/worlds.ts'

interface ApplyOptions {
  readonly force?: boolean
  readonly query?: string
  readonly subresource?: string
  readonly version?: string
  readonly metadata?: Fields
}

describe.each(stores)('server-side apply on the %s store', store => {
  let world: SharedWorld
  let api: Api
  let widgets: Collection

  beforeAll(async () => {
    world = await startSharedWorld(store, ['apply-plugin'])
    api = world.api
    widgets = new Collection(api, 'apply.example.com/v1', 'Widget', 'widgets')
  })
  afterAll(() => world?.end())
  beforeEach(() => widgets.clear())

  function send(manager: string, content: Fields, options: ApplyOptions = {}): Promise<Answer> {
    const { force = false, query = '', subresource, version = 'v1', metadata = {} } = options
    const apiVersion = `apply.example.com/${version}`
    const path = `/apis/${apiVersion}/widgets/w${subresource === undefined ? '' : `/${subresource}`}`
    const body = { apiVersion, kind: 'Widget', metadata: { name: 'w', ...metadata }, ...content }
    return api.request('PATCH', `${path}?fieldManager=${manager}&force=${force}${query}`, body, {
      type: 'application/apply-patch+yaml',
    })
  }

  async function apply(manager: string, spec: Fields, options?: ApplyOptions): Promise<ApiObject> {
    return objectOf(await send(manager, { spec }, options))
  }

  async function first(manager: string, spec: Fields, options?: ApplyOptions): Promise<ApiObject> {
    return objectOf(await send(manager, { spec }, options), 201)
  }

  describe('the object', () => {
    it('is created with 201 if it does not exist, and merged with 200 if it does', async () => {
      const made = await first('one', { title: 'a', tags: ['x'] })
      expect(made.spec).toEqual({ title: 'a', size: 1, tags: ['x'] })
      const merged = await apply('two', { color: 'red', tags: ['y'] })
      expect(merged.spec).toEqual({ title: 'a', size: 1, color: 'red', tags: ['x', 'y'] })
      expect(merged.metadata.uid).toBe(made.metadata.uid)
    })

    it('is created by one of many applies at once, and has the fields of all', async () => {
      const answers = await Promise.all(
        Array.from({ length: 8 }, (_, n) => send(`m${n}`, { spec: { tags: [`t${n}`] } })),
      )
      expect(answers.filter(({ status }) => status === 201)).toHaveLength(1)
      const { spec } = await widgets.read('w')
      expect([...arrayOf(spec.tags)].sort()).toEqual(Array.from({ length: 8 }, (_, n) => `t${n}`))
    })

    it('keeps its version, and watchers see nothing, if an apply changes nothing', async () => {
      const made = await first('one', { title: ' a ', size: 3 })
      // The hook of the kind trims the title of every write.
      expect(made.spec.title).toBe('a')
      const watch = await Watch.open(world.server.url, widgets.path)
      await watch.synced()
      const before = watch.changes.length
      const again = await apply('one', { title: ' a ', size: 3 })
      expect(again.raw).toEqual(made.raw)
      const next = await apply('one', { title: ' a ', size: 4 })
      await watch.reaches(next.metadata.version)
      await watch.close()
      const versions = watch.changes.slice(before).map(event => objectIn(event).metadata.version)
      expect(versions).toEqual([next.metadata.version])
    })

    it('takes YAML, and JSON as YAML', async () => {
      const yaml =
        'apiVersion: apply.example.com/v1\nkind: Widget\nmetadata: {name: w}\nspec:\n  tags: [a, b]\n'
      const flow = '{apiVersion: apply.example.com/v1, kind: Widget, metadata: {name: w}, spec: {size: 2}}'
      const path = `${widgets.at('w')}?fieldManager=`
      const type = 'application/apply-patch+yaml'
      objectOf(await api.request('PATCH', `${path}one`, yaml, { type }), 201)
      const { spec } = objectOf(await api.request('PATCH', `${path}two&force=true`, flow, { type }))
      expect(spec).toEqual({ tags: ['a', 'b'], size: 2 })
      refusalOf(await api.request('PATCH', `${path}two`, '{"a":', { type }), 400)
    })

    it('is not stored by a dry run', async () => {
      const dry = await send('one', { spec: { size: 2 } }, { query: '&dryRun=All' })
      expect([dry.status, fieldsOf(dry.body).spec]).toEqual([201, { size: 2 }])
      refusalOf(await api.get(widgets.at('w')), 404)
      const made = await first('one', { size: 2 })
      expect((await apply('one', { size: 3 }, { query: '&dryRun=All' })).spec.size).toBe(3)
      expect((await widgets.read('w')).raw).toEqual(made.raw)
    })
  })

  describe('ownership', () => {
    it('is that of the configuration, and the fields before it belong to before-first-apply', async () => {
      const made = await widgets.create('w', { title: 'a', tags: ['x'] }, { labels: { app: 'w' } })
      expect(made.raw.metadata).not.toHaveProperty('managedFields')
      const merged = await apply('one', { size: 1, ports: [{ name: 'web', port: 80 }] })
      expect(ownersOf(merged)).toEqual([
        'before-first-apply Update: .metadata.labels .metadata.labels.app .spec .spec.size .spec.tags .spec.tags[="x"] .spec.title',
        'one Apply: .spec.ports[name="web"] .spec.ports[name="web"].name .spec.ports[name="web"].port .spec.size',
      ])
      expect(merged.metadata.generation).toBe(2)
    })

    it('does not exist on objects without an apply', async () => {
      await widgets.create('w', { size: 1 })
      await api.mergePatch(widgets.at('w'), { spec: { size: 2 } })
      const { raw } = await widgets.read('w')
      expect(raw.metadata).not.toHaveProperty('managedFields')
    })

    it('of a field that an applier changes is a conflict, and force takes it', async () => {
      await first('one', { size: 1, title: 'a' })
      const refusal = refusalOf(
        await send('two', { spec: { size: 2, title: 'b', color: 'red' } }),
        409,
        'Conflict',
      )
      expect(refusal.message).toBe(
        'Apply failed with 2 conflicts: conflicts with "one":\n- .spec.size\n- .spec.title',
      )
      expect(refusal.causes).toEqual(
        ['.spec.size', '.spec.title'].map(field => ({
          reason: 'FieldManagerConflict',
          message: 'conflict with "one"',
          field,
        })),
      )
      expect((await widgets.read('w')).spec).toEqual({ size: 1, title: 'a' })
      const forced = await apply('two', { size: 2, color: 'red' }, { force: true })
      expect(forced.spec).toEqual({ size: 2, title: 'a', color: 'red' })
      expect(ownersOf(forced)).toEqual(['one Apply: .spec.title', 'two Apply: .spec.color .spec.size'])
    })

    it('is shared by appliers that set the same value, and the field goes with the last of them', async () => {
      await first('one', { size: 5, tags: ['a'] })
      const shared = await apply('two', { size: 5, tags: ['a'] })
      expect(ownersOf(shared)).toEqual([
        'one Apply: .spec.size .spec.tags[="a"]',
        'two Apply: .spec.size .spec.tags[="a"]',
      ])
      expect(shared.metadata.generation).toBe(1)
      refusalOf(await send('one', { spec: { size: 6, tags: ['a'] } }), 409)
      expect((await apply('one', {})).spec).toEqual({ size: 5, tags: ['a'] })
      const gone = await apply('two', {})
      expect(gone.spec).toEqual({ size: 1 })
    })

    it('decides what an apply removes: what its manager no longer names, and no other manager owns', async () => {
      await widgets.create('w', { color: 'red', ports: [{ name: 'admin', port: 1 }] })
      await apply('one', {
        tags: ['a', 'b'],
        ports: [{ name: 'web', port: 80, protocol: 'TCP' }],
        limits: { cpu: '1' },
      })
      await apply('two', { tags: ['b'], ports: [{ name: 'web', protocol: 'TCP' }] })
      const left = await apply('one', { tags: [] })
      expect(left.spec).toEqual({
        size: 1,
        color: 'red',
        tags: ['b'],
        ports: [
          { name: 'admin', port: 1 },
          { name: 'web', protocol: 'TCP' },
        ],
      })
    })

    it('of labels, finalizers and owner references is by key, value and uid', async () => {
      const owner = (uid: string) => ({ apiVersion: 'v1', kind: 'Owner', name: 'o', uid })
      const metadata = (letter: string) => ({
        labels: { [letter]: '1' },
        finalizers: [`x.example.com/${letter}`],
        ownerReferences: [owner(letter)],
      })
      await first('one', {}, { metadata: metadata('a') })
      const both = await apply('two', {}, { metadata: metadata('b') })
      expect(both.metadata.labels).toEqual({ a: '1', b: '1' })
      expect(both.metadata.finalizers).toEqual(['x.example.com/a', 'x.example.com/b'])
      const left = await apply('one', {})
      expect(left.metadata.finalizers).toEqual(['x.example.com/b'])
      expect(fieldsOf(left.raw.metadata).ownerReferences).toEqual([owner('b')])
      await api.delete(widgets.at('w'))
      // Leaves out its last finalizer.
      objectOf(await send('two', { spec: {} }))
      refusalOf(await api.get(widgets.at('w')), 404)
    })
  })

  describe('other writers', () => {
    it('own what they change, by the parameter fieldManager or the User-Agent', async () => {
      await first('one', { size: 1, title: 'a', tags: ['x'] })
      await api.mergePatch(`${widgets.at('w')}?fieldManager=editor`, { spec: { size: 2 } })
      const headers = { 'user-agent': 'my-tool/1.0 (linux)' }
      const patched = objectOf(
        await api.jsonPatch(widgets.at('w'), [{ op: 'add', path: '/spec/color', value: 'red' }], { headers }),
      )
      expect(ownersOf(patched)).toEqual([
        'editor Update: .spec.size',
        'my-tool Update: .spec.color',
        'one Apply: .spec.tags[="x"] .spec.title',
      ])
      const refusal = refusalOf(await send('one', { spec: { size: 1, title: 'a', tags: ['x'] } }), 409)
      expect(refusal.message).toBe(
        'Apply failed with 1 conflict: conflict with "editor" using apply.example.com/v1: .spec.size',
      )
    })

    it('that replace an object without its managed fields keep them', async () => {
      const made = await first('one', { size: 7, title: 'a' })
      const same = objectOf(await api.put(widgets.at('w'), widgets.body('w', { size: 7, title: 'a' })))
      expect(same.raw).toEqual(made.raw)
      const replaced = objectOf(
        await api.put(`${widgets.at('w')}?fieldManager=p`, widgets.body('w', { title: 'a' })),
      )
      // The default takes the place of the size, so the size is changed and not removed.
      expect(ownersOf(replaced)).toEqual(['one Apply: .spec.title', 'p Update: .spec.size'])
    })

    it('of one manager share an entry, and beyond ten the oldest are merged', async () => {
      await first('one', {})
      for (let n = 0; n < 12; n++)
        await api.mergePatch(`${widgets.at('w')}?fieldManager=m${n % 12}`, {
          metadata: { labels: { [`l${n}`]: '1' } },
        })
      const { raw } = await widgets.read('w')
      const entries = arrayOf(fieldsOf(raw.metadata).managedFields).map(fieldsOf)
      const updates = entries.filter(({ operation }) => operation === 'Update')
      expect(updates).toHaveLength(10)
      expect(updates.map(({ manager }) => manager)).toContain('ancient-changes')
      const owned = updates.flatMap(entry => pathsOf(entry.fieldsV1))
      for (let n = 0; n < 12; n++) expect(owned).toContain(`.metadata.labels.l${n}`)
    })

    it('end the tracking with a list of one empty entry, until the next apply', async () => {
      await first('one', { size: 2 })
      const reset = objectOf(await api.mergePatch(widgets.at('w'), { metadata: { managedFields: [{}] } }))
      expect(reset.raw.metadata).not.toHaveProperty('managedFields')
      expect(reset.metadata.generation).toBe(1)
      const next = await apply('two', { size: 2 })
      expect(ownersOf(next)).toEqual(['before-first-apply Update: .spec .spec.size', 'two Apply: .spec.size'])
    })

    it('cannot lose the managed fields by sending an empty or malformed list', async () => {
      const made = await first('one', { size: 2 })
      for (const managedFields of [
        null,
        [],
        'x',
        [{ operation: 'Apply' }],
        [{ manager: 'x', operation: 'Get' }],
      ]) {
        const answer = await api.mergePatch(widgets.at('w'), { metadata: { managedFields } })
        expect(objectOf(answer).raw).toEqual(made.raw)
      }
    })
  })

  describe('the status', () => {
    it('has owners of its own, with the subresource in their entries', async () => {
      await first('one', { size: 2 })
      const status = { conditions: [{ type: 'Ready', status: 'True' }] }
      const body = { spec: { size: 9 }, status }
      const applied = objectOf(await send('controller', body, { subresource: 'status' }))
      expect([applied.spec, applied.status]).toEqual([{ size: 2 }, status])
      await api.mergePatch(`${widgets.at('w')}/status?fieldManager=other`, { status: { phase: 'Up' } })
      const { raw } = await widgets.read('w')
      const entries = arrayOf(fieldsOf(raw.metadata).managedFields).map(fieldsOf)
      // The entries are in the order of their seconds.
      expect(
        entries.map(({ manager, operation, subresource }) => [manager, operation, subresource]).sort(),
      ).toEqual([
        ['controller', 'Apply', 'status'],
        ['one', 'Apply', undefined],
        ['other', 'Update', 'status'],
      ])
      const conflict = { status: { phase: 'Down' } }
      expect(refusalOf(await send('controller', conflict, { subresource: 'status' }), 409).message).toBe(
        'Apply failed with 1 conflict: conflict with "other" with subresource "status" using apply.example.com/v1: .status.phase',
      )
      const left = objectOf(await send('controller', { status: {} }, { subresource: 'status' }))
      expect(left.status).toEqual({ phase: 'Up' })
    })

    it('is not changed by an apply of the object, nor created by one of the status', async () => {
      refusalOf(await send('one', { status: { phase: 'Up' } }, { subresource: 'status' }), 404)
      const made = objectOf(await send('one', { spec: { size: 2 }, status: { phase: 'Up' } }), 201)
      expect(made.raw).not.toHaveProperty('status')
      expect(ownersOf(made)).toEqual(['one Apply: .spec.size'])
    })
  })

  describe('versions of a kind', () => {
    it('let a manager move to a version with more fields', async () => {
      await first('one', { title: 'a', color: 'red' }, { version: 'v1beta1' })
      const moved = await apply('one', { title: 'a', args: ['x'] })
      expect(moved.spec).toEqual({ title: 'a', size: 1, args: ['x'] })
      expect((await apply('one', { title: 'a', args: ['x'] })).raw).toEqual(moved.raw)
    })

    it('own the same fields under their names in each version', async () => {
      await first('old', { amount: 4, title: 'a' }, { version: 'v1beta1' })
      expect((await widgets.read('w')).spec).toEqual({ size: 4, title: 'a' })
      const refusal = refusalOf(await send('new', { spec: { size: 5 } }), 409)
      expect(refusal.causes.map(({ field }) => field)).toEqual(['.spec.amount'])
      const forced = await apply('new', { size: 5 }, { force: true })
      expect(ownersOf(forced)).toEqual(['new Apply: .spec.size', 'old Apply: .spec.title'])
      // An applier may change the version that it applies.
      const moved = await apply('old', { color: 'red' })
      expect(moved.spec).toEqual({ size: 5, color: 'red' })
      expect(ownersOf(moved)).toEqual(['new Apply: .spec.size', 'old Apply: .spec.color'])
    })
  })

  describe('kubectl', () => {
    const annotation = 'kubectl.kubernetes.io/last-applied-configuration'

    it('moves from client-side apply without a conflict, and keeps its annotation current', async () => {
      const config = (size: number) => widgets.body('w', { size, title: 'a' })
      const lastApplied = `${JSON.stringify(config(1))}\n`
      await widgets.create('w', { size: 1, title: 'a' }, { annotations: { [annotation]: lastApplied } })
      refusalOf(await send('other', { spec: { size: 2, title: 'a' } }), 409)
      const applied = await apply('kubectl', { size: 2, title: 'a' })
      expect(applied.spec).toEqual({ size: 2, title: 'a' })
      expect(JSON.parse(String(applied.metadata.annotations[annotation]))).toEqual(config(2))
    })

    it('moves the fields of client-side apply to its own entry with a JSON patch', async () => {
      await widgets.create('w', { size: 1, title: 'a' }, { annotations: { [annotation]: '{}' } })
      const live = await apply('kubectl', { size: 1 })
      const entries = arrayOf(fieldsOf(live.raw.metadata).managedFields).map(fieldsOf)
      const moved = entries.map(entry => ({ ...entry, manager: 'kubectl', operation: 'Apply' })).slice(1)
      const patch = (version: string) => [
        { op: 'replace', path: '/metadata/managedFields', value: moved },
        { op: 'replace', path: '/metadata/resourceVersion', value: version },
      ]
      refusalOf(await api.jsonPatch(widgets.at('w'), patch('1')), 409)
      const path = `${widgets.at('w')}?fieldManager=kubectl`
      const migrated = objectOf(await api.jsonPatch(path, patch(live.metadata.version)))
      expect(ownersOf(migrated)).toEqual([
        `kubectl Apply: .metadata.annotations .metadata.annotations.${annotation} .spec .spec.size .spec.title`,
      ])
      // What it no longer names goes now.
      expect((await apply('kubectl', { size: 1 })).spec).toEqual({ size: 1 })
    })
  })

  describe('refuses', () => {
    const config = { apiVersion: 'apply.example.com/v1', kind: 'Widget', metadata: { name: 'w' }, spec: {} }
    const type = 'application/apply-patch+yaml'

    it.each([
      ['no fieldManager', '', config, 422, 'fieldManager'],
      ['a fieldManager that is too long', `?fieldManager=${'x'.repeat(129)}`, config, 422, '128 bytes'],
      ['a fieldManager with control characters', '?fieldManager=a%0Ab', config, 422, 'printable'],
      ['an unknown value of force', '?fieldManager=a&force=maybe', config, 400, 'force'],
      [
        'managed fields',
        '?fieldManager=a',
        { ...config, metadata: { name: 'w', managedFields: [] } },
        400,
        'metadata.managedFields',
      ],
      ['another kind', '?fieldManager=a', { ...config, kind: 'Other' }, 400, 'Widget'],
      ['another name', '?fieldManager=a', { ...config, metadata: { name: 'v' } }, 400, 'metadata.name'],
      [
        'a duplicate item of a set',
        '?fieldManager=a',
        { ...config, spec: { tags: ['a', 'b', 'a'] } },
        422,
        'spec.tags[2]',
      ],
      [
        'an item without its key',
        '?fieldManager=a',
        { ...config, spec: { ports: [{ port: 1 }] } },
        422,
        'spec.ports[0]',
      ],
      ['a violation of the schema', '?fieldManager=a', { ...config, spec: { size: 101 } }, 422, 'spec.size'],
      [
        'a version of an absent object',
        '?fieldManager=a',
        { ...config, metadata: { name: 'w', uid: 'u' } },
        409,
        'uid',
      ],
    ])('%s', async (_what, query, body, code, text) => {
      const refusal = refusalOf(
        await api.request('PATCH', `${widgets.at('w')}${query}`, body, { type }),
        code,
      )
      expect(refusal.message).toContain(text)
      refusalOf(await api.get(widgets.at('w')), 404)
    })

    it('force on other patches', async () => {
      await widgets.create('w', {})
      const refusal = refusalOf(
        await api.mergePatch(`${widgets.at('w')}?force=true`, { spec: { size: 2 } }),
        422,
      )
      expect(refusal.causes.map(({ field }) => field)).toEqual(['force'])
    })

    it('a version or uid that is not the current one', async () => {
      const made = await first('one', { size: 1 })
      await api.mergePatch(widgets.at('w'), { spec: { title: 'b' } })
      const old = { metadata: { resourceVersion: made.metadata.version } }
      refusalOf(await send('one', { spec: { size: 2 } }, old), 409)
      refusalOf(await send('one', { spec: { size: 2 } }, { metadata: { uid: 'another' } }), 409)
      const { metadata } = await widgets.read('w')
      await apply('one', { size: 2 }, { metadata: { uid: metadata.uid, resourceVersion: metadata.version } })
    })

    it('unknown fields under Strict, and otherwise keeps them', async () => {
      refusalOf(await send('one', { spec: { other: { a: 1 } } }, { query: '&fieldValidation=Strict' }), 400)
      const made = await first('one', { other: { a: 1 } })
      const merged = await apply('two', { other: { b: [2] } })
      expect(merged.spec).toEqual({ size: 1, other: { a: 1, b: [2] } })
      expect(ownersOf(made)).toEqual(['one Apply: .spec.other .spec.other.a'])
    })
  })
})

/** One line for each entry: manager, operation and its paths. Sorted, because the order of entries depends on times. */
function ownersOf({ raw }: ApiObject): string[] {
  const lines = arrayOf(fieldsOf(raw.metadata).managedFields).map(value => {
    const { manager, operation, fieldsType, fieldsV1, time } = fieldsOf(value)
    expect(fieldsType).toBe('FieldsV1')
    expect(time).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/)
    return `${manager} ${operation}: ${pathsOf(fieldsV1).join(' ')}`
  })
  return lines.sort()
}

/** Returns the paths of a FieldsV1 in the form of conflicts, in order. */
function pathsOf(fieldsV1: unknown, above = ''): string[] {
  const paths = Object.entries(fieldsOf(fieldsV1)).flatMap(([element, node]) => {
    if (element === '.') return [above]
    const content = element.slice(2)
    const keys = element.startsWith('k:') ? fieldsOf(JSON.parse(content)) : {}
    const steps: Readonly<Record<string, string>> = {
      f: `.${content}`,
      v: `[=${content}]`,
      k: `[${Object.entries(keys).map(([name, value]) => `${name}=${JSON.stringify(value)}`)}]`,
    }
    const path = `${above}${steps[element[0] ?? '']}`
    return Object.keys(fieldsOf(node)).length === 0 ? [path] : pathsOf(node, path)
  })
  return paths.sort()
}
