import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Api, type Collection, listOf, objectOf, refusalOf } from './support/api.ts'
import { applyDefinition, define, objectsOf, pathOf } from './support/definitions.ts'
import type { Fields } from './support/json.ts'
import { refusedWatch, Watch } from './support/watch.ts'
import { renameField, Widgets, widgetDefinition } from './support/widgets.ts'
import { createAll, eventually, stores } from './support/worlds.ts'

describe.each(stores)('objects that were stored in another version, on the %s store', store => {
  let widgets: Widgets
  let kinds = 0

  beforeAll(async () => {
    widgets = await Widgets.start(store)
  })
  afterAll(() => widgets?.end())

  /** A kind with three objects in v1. */
  class Kind {
    readonly plural = `widgets${kinds++}s`

    static async make(): Promise<Kind> {
      const kind = new Kind()
      await define(widgets.api, kind.#definition('v1'))
      await createAll(
        kind.at('v1'),
        ['a', 'b', 'c'].map(name => ({
          name,
          spec: { color: `of ${name}` },
          metadata: { finalizers: ['x/y'] },
        })),
      )
      widgets.webhook.forget()
      return kind
    }

    #definition(storage: string): Fields {
      return widgetDefinition(widgets.webhook, { storage, plural: this.plural })
    }

    at(version: string, api = widgets.api): Collection {
      return objectsOf(api, this.#definition('v1'), { version })
    }

    /** Changes the version that objects are stored in. */
    async switchTo(storage: string): Promise<void> {
      await applyDefinition(widgets.api, this.#definition(storage))
    }

    async remove(): Promise<void> {
      await widgets.api.delete(pathOf(this.#definition('v1')))
    }
  }

  const failing = async (run: () => Promise<void>) => {
    widgets.webhook.raw = response => response.destroy()
    try {
      await run()
    } finally {
      widgets.webhook.raw = undefined
    }
  }
  const api = () => widgets.api

  it('are converted together when the kind is served anew, and written in the new version', async () => {
    const kind = await Kind.make()
    await kind.switchTo('v1beta1')
    expect(widgets.webhook.calls).toEqual([3])
    const { items } = await kind.at('v1beta1').list()
    expect(items.map(({ spec }) => spec.colour).toSorted()).toEqual(['of a', 'of b', 'of c'])
    // As in Kubernetes, they have the defaults of the version that they are stored in.
    expect((await kind.at('v1').read('a')).spec).toEqual({ color: 'of a' })
    objectOf(await api().mergePatch(kind.at('v1alpha1').at('a'), { spec: { hue: 'new' } }))
    expect((await kind.at('v1beta1').read('a')).spec).toEqual({ colour: 'new', size: 7 })
  })

  it('can be read in their own version, lose finalizers and be deleted while the webhook fails', async () => {
    const kind = await Kind.make()
    const [v1, v1beta1] = [kind.at('v1'), kind.at('v1beta1')]
    await failing(async () => {
      await kind.switchTo('v1beta1')
      expect((await v1.read('a')).spec).toEqual({ color: 'of a' })
      expect((await v1.list()).names.toSorted()).toEqual(['a', 'b', 'c'])
      refusalOf(await api().get(v1beta1.at('a')), 500)
      refusalOf(await api().get(v1beta1.path), 500)
      refusalOf(await api().mergePatch(v1beta1.at('a'), { spec: { colour: 'new' } }), 500)
      expect(objectOf(await api().delete(v1beta1.at('a'))).metadata.finalizers).toEqual(['x/y'])
      objectOf(await api().mergePatch(v1beta1.at('a'), { metadata: { finalizers: null } }))
      refusalOf(await api().get(v1.at('a')), 404)
    })
    expect((await v1beta1.read('b')).spec).toEqual({ colour: 'of b' })
    expect((await v1beta1.list()).names.toSorted()).toEqual(['b', 'c'])
  })

  it('fail lists and watches that select by fields until they are converted', async () => {
    const kind = await Kind.make()
    const [v1, v1beta1] = [kind.at('v1'), kind.at('v1beta1')]
    objectOf(await api().mergePatch(v1.at('a'), { spec: { size: 5 } }))
    const query = '?fieldSelector=spec.size=5'
    await failing(async () => {
      await kind.switchTo('v1beta1')
      for (const { path } of [v1, v1beta1]) {
        refusalOf(await api().get(`${path}${query}`), 500)
        refusalOf(await refusedWatch(widgets.world.server.url, `${path}${query}`), 500)
      }
      expect((await v1.list({ fieldSelector: 'metadata.name=a' })).names).toEqual(['a'])
    })
    for (const { path } of [v1, v1beta1])
      expect(listOf(await api().get(`${path}${query}`)).names).toEqual(['a'])
  })

  it('are converted once the webhook works again, and their watches end so that clients list them', async () => {
    const kind = await Kind.make()
    let watching: Watch | undefined
    await failing(async () => {
      await kind.switchTo('v1beta1')
      watching = await Watch.open(widgets.world.server.url, `${kind.at('v1').path}?labelSelector=none`)
      await watching.synced()
    })
    await watching?.closed
    expect(watching?.changes.map(({ type }) => type)).toEqual(['ERROR'])
    widgets.webhook.forget()
    expect((await kind.at('v1beta1').list()).items.map(({ spec }) => spec.colour)).toHaveLength(3)
    expect(widgets.webhook.calls).toEqual([])
  })

  it('are deleted with their definition, although the webhook fails', async () => {
    const kind = await Kind.make()
    await failing(async () => {
      await kind.switchTo('v1beta1')
      await kind.remove()
      for (const name of ['a', 'b', 'c'])
        await api().mergePatch(kind.at('v1').at(name), { metadata: { finalizers: null } })
      await expect.poll(() => api().get(kind.at('v1').path)).toMatchObject({ status: 404 })
    })
  })

  it('are converted again after a restart', async () => {
    const kind = await Kind.make()
    await kind.switchTo('v1beta1')
    widgets.webhook.forget()
    await widgets.world.server.restart()
    expect((await kind.at('v1beta1').read('a')).spec).toEqual({ colour: 'of a' })
    expect(widgets.webhook.convert).toBe(renameField)
  })
})

describe('a kind that a webhook converts, on two servers', () => {
  it('has the same objects on both, also while its storage version changes', async () => {
    const widgets = await Widgets.start('etcd')
    try {
      const there = new Api((await widgets.world.another()).url)
      const servers = [there, widgets.api]
      const definition = widgetDefinition(widgets.webhook)
      const at = (version: string, api: Api) => objectsOf(api, definition, { version })
      await at('v1beta1', there).create('a', { colour: 'red' })
      for (const [n, storage] of ['v1beta1', 'v1alpha1', 'v1', 'v1alpha1', 'v1beta1'].entries()) {
        const changed = applyDefinition(widgets.api, widgetDefinition(widgets.webhook, { storage }))
        for (const [writer, reader] of [servers, servers.toReversed(), servers]) {
          if (writer === undefined || reader === undefined) throw new Error('no servers')
          const patch = { spec: { colour: `${n}` } }
          // While a kind is exchanged, its requests are refused with 503.
          await eventually(async () =>
            objectOf(await writer.mergePatch(at('v1beta1', writer).at('a'), patch)),
          )
          const { spec } = await eventually(() => at('v1', reader).read('a'))
          expect(spec).toEqual({ color: `${n}`, size: 7 })
        }
        await changed
      }
    } finally {
      await widgets.end()
    }
  })
})
