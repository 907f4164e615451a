import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type Collection, objectOf, refusalOf } from './support/api.ts'
import { sendConverted } from './support/conversion-webhook.ts'
import { arrayOf, fieldsOf } from './support/json.ts'
import { Watch } from './support/watch.ts'
import { renameField, Widgets } from './support/widgets.ts'
import { createAll, stores } from './support/worlds.ts'

describe.each(stores)('objects that a webhook converts, on the %s store', store => {
  let widgets: Widgets
  let v1: Collection
  let v1beta1: Collection
  let v1alpha1: Collection

  beforeAll(async () => {
    widgets = await Widgets.start(store)
    v1 = widgets.at('v1')
    v1beta1 = widgets.at('v1beta1')
    v1alpha1 = widgets.at('v1alpha1')
  })
  afterAll(() => widgets?.end())
  beforeEach(() => widgets.clear())

  const api = () => widgets.api
  const apply = (collection: Collection, name: string, spec: object, manager = 'one', force = false) =>
    api().request(
      'PATCH',
      `${collection.at(name)}?fieldManager=${manager}&force=${force}`,
      JSON.stringify(collection.body(name, spec)),
      { type: 'application/apply-patch+yaml' },
    )

  it('are created, replaced and patched in each version, and read in each', async () => {
    const created = await v1beta1.create('a', { colour: 'red' })
    expect(created.spec).toEqual({ colour: 'red', size: 7 })
    expect((await v1.read('a')).spec).toEqual({ color: 'red', size: 7 })
    expect((await v1alpha1.read('a')).spec).toEqual({ hue: 'red', size: 7 })
    const patched = objectOf(await api().mergePatch(v1alpha1.at('a'), { spec: { hue: 'blue' } }))
    expect(patched.spec).toEqual({ hue: 'blue', size: 7 })
    const { raw } = await v1beta1.read('a')
    const replaced = objectOf(
      await api().put(v1beta1.at('a'), { ...raw, spec: { colour: 'green', size: 1 } }),
    )
    expect([replaced.spec, replaced.metadata.generation]).toEqual([{ colour: 'green', size: 1 }, 3])
    expect((await v1.read('a')).spec).toEqual({ color: 'green', size: 1 })
  })

  it('are applied in each version, with the owners of their fields', async () => {
    objectOf(await apply(v1beta1, 'a', { colour: 'red', size: 1 }), 201)
    const conflict = await apply(v1alpha1, 'a', { hue: 'blue' }, 'two')
    expect([conflict.status, JSON.stringify(conflict.body)]).toEqual([
      409,
      expect.stringContaining('.spec.colour'),
    ])
    objectOf(await apply(v1alpha1, 'a', { hue: 'blue' }, 'two', true))
    expect((await v1.read('a')).spec).toEqual({ color: 'blue', size: 1 })
    const { raw } = objectOf(await apply(v1beta1, 'a', { size: 1 }))
    expect(raw.spec).toEqual({ colour: 'blue', size: 1 })
    const owners = arrayOf(fieldsOf(raw.metadata).managedFields).map(fieldsOf)
    expect(owners.map(({ manager, fieldsV1 }) => [manager, fieldsOf(fieldsV1)['f:spec']])).toEqual([
      ['one', { 'f:size': {} }],
      ['two', { 'f:hue': {} }],
    ])
  })

  it('have a status and a scale in each version', async () => {
    await v1.create('a', { color: 'red', size: 3 })
    const status = await api().mergePatch(`${v1beta1.at('a')}/status`, { status: { size: 2 } })
    expect(objectOf(status).raw).toMatchObject({ spec: { colour: 'red', size: 3 }, status: { size: 2 } })
    const scaled = await api().mergePatch(`${v1alpha1.at('a')}/scale`, { spec: { replicas: 5 } })
    expect(scaled.body).toMatchObject({ kind: 'Scale', spec: { replicas: 5 }, status: { replicas: 2 } })
    expect((await api().get(`${v1beta1.at('a')}/scale`)).body).toMatchObject({ spec: { replicas: 5 } })
    expect((await v1.read('a')).raw).toMatchObject({ spec: { color: 'red', size: 5 }, status: { size: 2 } })
  })

  it('keep labels and annotations that only one version has', async () => {
    widgets.webhook.convert = (object, to) => {
      const metadata = fieldsOf(object.metadata)
      const { only, ...others } = fieldsOf(metadata.annotations ?? {})
      const annotations = to === 'v1' ? others : { ...others, only: to }
      return renameField({ ...object, metadata: { ...metadata, annotations } }, to)
    }
    const created = await v1beta1.create('a', { colour: 'red' }, { annotations: { both: 'yes' } })
    expect(created.metadata.annotations).toEqual({ both: 'yes', only: 'v1beta1' })
    expect((await v1.read('a')).metadata.annotations).toEqual({ both: 'yes' })
    const { raw } = await v1beta1.read('a')
    const same = objectOf(await api().put(v1beta1.at('a'), raw))
    expect(same.metadata.version).toBe(created.metadata.version)
    const labelled = await api().mergePatch(v1beta1.at('a'), { metadata: { labels: { l: 'v' } } })
    const { labels, annotations } = objectOf(labelled).metadata
    expect([labels, annotations]).toEqual([{ l: 'v' }, { both: 'yes', only: 'v1beta1' }])
    const held = await api().mergePatch(v1beta1.at('a'), { metadata: { finalizers: ['x/y'] } })
    expect(objectOf(held).metadata.annotations).toEqual({ both: 'yes', only: 'v1beta1' })
    objectOf(await api().mergePatch(v1beta1.at('a'), { metadata: { finalizers: null } }))
    expect((await v1.read('a')).metadata).toMatchObject({ labels: { l: 'v' }, annotations: { both: 'yes' } })
  })

  it('are listed by one request for a hundred of them, and by none for the next list', async () => {
    const all = Array.from({ length: 100 }, (_, n) => ({ name: `w-${n}`, spec: { color: `c${n}` } }))
    await createAll(v1, all)
    widgets.webhook.forget()
    const { items } = await v1beta1.list()
    expect(new Set(items.map(({ spec }) => spec.colour))).toEqual(new Set(all.map(({ spec }) => spec.color)))
    await v1beta1.list()
    await v1beta1.read('w-1')
    expect(widgets.webhook.calls).toEqual([100])
  })

  it('are shown in the columns of the version', async () => {
    await v1.create('a', { color: 'red' })
    const headers = { accept: 'application/json;as=Table;v=v1;g=meta.k8s.io' }
    const table = fieldsOf((await api().get(v1beta1.path, { headers })).body)
    expect(arrayOf(table.columnDefinitions).map(column => fieldsOf(column).name)).toContain('colour')
    expect(arrayOf(fieldsOf(arrayOf(table.rows)[0]).cells)).toEqual(['a', 'red'])
  })

  it('are selected in each version by the fields that the storage version has, too', async () => {
    await createAll(
      v1,
      [1, 2].map(size => ({ name: `w-${size}`, spec: { color: `c${size}`, size } })),
    )
    for (const collection of [v1, v1beta1, v1alpha1])
      expect((await collection.list({ fieldSelector: 'spec.size=2' })).names).toEqual(['w-2'])
    expect((await v1.list({ fieldSelector: 'spec.color=c1' })).names).toEqual(['w-1'])
    refusalOf(await api().get(`${v1beta1.path}?fieldSelector=spec.colour=c1`), 400)
  })

  it('are not asked for again after a write in another version', async () => {
    await v1beta1.create('a', { colour: 'red' })
    expect(widgets.webhook.asked.map(({ to }) => to)).toEqual(['v1', 'v1beta1'])
    await v1beta1.read('a')
    await v1beta1.list()
    expect(widgets.webhook.calls).toHaveLength(2)
  })

  describe('in a watch of another version', () => {
    const open: Watch[] = []
    const watch = async (collection: Collection, query = '') => {
      const opened = await Watch.open(widgets.world.server.url, `${collection.path}${query}`)
      open.push(opened)
      return opened
    }
    const colours = (watching: Watch) =>
      watching.changes.map(({ type, raw }) => `${type} ${fieldsOf(fieldsOf(raw.object).spec).colour}`)
    beforeEach(() => Promise.all(open.splice(0).map(each => each.cut())))

    it('are converted once for all watches, in order', async () => {
      await createAll(
        v1,
        Array.from({ length: 30 }, (_, n) => ({ name: `w-${n}`, spec: { color: 'old' } })),
      )
      widgets.webhook.forget()
      const watches = await Promise.all(Array.from({ length: 10 }, () => watch(v1beta1)))
      for (const each of watches) await each.synced()
      expect(widgets.webhook.calls).toEqual([30])
      widgets.webhook.forget()
      for (const color of ['one', 'two', 'three']) {
        const { metadata } = objectOf(await api().mergePatch(v1.at('w-1'), { spec: { color } }))
        for (const each of watches) await each.reaches(metadata.version)
      }
      const { metadata } = await v1.create('new', { color: 'four' })
      for (const each of watches) await each.reaches(metadata.version)
      await api().delete(v1.at('new'))
      for (const each of watches) await each.until(({ story }) => story.includes('DELETED new'))
      expect(widgets.webhook.calls).toEqual([1, 1, 1, 1])
      const seen = ['MODIFIED one', 'MODIFIED two', 'MODIFIED three', 'ADDED four', 'DELETED four']
      for (const each of watches) expect(colours(each).slice(30)).toEqual(seen)
    })

    it('arrive in order and without a gap once a slow webhook responds, and in other versions at once', async () => {
      const converted = await watch(v1beta1)
      const hub = await watch(v1)
      await Promise.all([converted.synced(), hub.synced()])
      const held: (() => void)[] = []
      widgets.webhook.raw = (response, conversion) =>
        held.push(() => sendConverted(response, conversion, renameField))
      for (let n = 0; n < 20; n++) await v1.create(`w-${n}`, { color: `c${n}` })
      await hub.until(({ changes }) => changes.length === 20)
      expect(converted.changes).toEqual([])
      widgets.webhook.raw = undefined
      for (const respond of held) respond()
      await converted.until(({ changes }) => changes.length === 20)
      expect(colours(converted)).toEqual(Array.from({ length: 20 }, (_, n) => `ADDED c${n}`))
      // One for the first change, and one for all that came meanwhile.
      expect(widgets.webhook.calls).toEqual([1, 19])
    })

    it('are sent by a watch that resumes from an earlier version', async () => {
      const { metadata } = await v1.create('a', { color: 'one' })
      objectOf(await api().mergePatch(v1.at('a'), { spec: { color: 'two' } }))
      await api().delete(v1.at('a'))
      const converted = await watch(v1beta1, `?version=${metadata.version}`)
      await converted.until(({ story }) => story.includes('DELETED a'))
      expect(colours(converted)).toEqual(['MODIFIED two', 'DELETED two'])
    })
  })
})
