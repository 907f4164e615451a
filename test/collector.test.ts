import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type ApiObject, type Collection, objectOf, refusalOf } from './support/api.ts'
import { itemsOf, partsOf } from './support/kinds.ts'
import { writeFiles } from './support/plugins.ts'
import { type Running, spawnProgram } from './support/server.ts'
import { Watch } from './support/watch.ts'
import { eventually, type Store, startWorld, stores, type World } from './support/worlds.ts'

const cleanups: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean()
})

/** One plugin declares the owners (items), another their dependents (parts). */
const serve = (store: Store, role: string) =>
  startWorld(store, ['items-plugin', 'parts-plugin'], { args: ['--role', role] })

function kindsOf({ api }: World) {
  return { items: itemsOf(api), parts: partsOf(api) }
}

async function startControllers(world: World): Promise<Running> {
  const plugins = world.plugins.flatMap(dir => ['--plugin', dir])
  const running = spawnProgram(['serve', '--role', 'controllers', '--server', world.server.url, ...plugins])
  cleanups.push(() => running.kill('SIGKILL'))
  await running.says(/^setpoint controllers running against /)
  return running
}

interface Reference {
  readonly apiVersion: string
  readonly kind: string
  readonly name: string
  readonly uid: string
  readonly blockOwnerDeletion?: boolean
}

const to = (owner: ApiObject, blockOwnerDeletion?: boolean): Reference => ({
  apiVersion: owner.apiVersion,
  kind: owner.kind,
  name: owner.metadata.name,
  uid: owner.metadata.uid,
  ...(blockOwnerDeletion !== undefined && { blockOwnerDeletion }),
})

const owned = (...ownerReferences: Reference[]) => ({ ownerReferences })

const nobody = (name = 'nobody'): Reference => ({
  apiVersion: 'items.example.com/v1',
  kind: 'Item',
  name,
  uid: '00000000-0000-4000-8000-000000000000',
})

const isGone = (collection: Collection, name: string, patienceMs?: number) =>
  eventually(async () => refusalOf(await collection.api.get(collection.at(name)), 404), patienceMs)

const referencesOf = ({ raw }: ApiObject) =>
  (raw.metadata as { ownerReferences?: readonly Reference[] }).ownerReferences ?? []

let sentinels = 0
/** Waits until the collector has processed the earlier changes: it has collected a later dependent. */
async function collectorHasPassed(parts: Collection): Promise<void> {
  for (let round = 0; round < 2; round++) {
    const name = `sentinel-${++sentinels}`
    await parts.create(name, {}, owned(nobody(`nobody-${sentinels}`)))
    await isGone(parts, name)
  }
}

/** Removes every object, also those with finalizers. */
async function empty(collections: readonly Collection[]): Promise<void> {
  await eventually(async () => {
    for (const collection of collections) {
      await collection.api.delete(collection.path)
      const { names } = await collection.list()
      for (const name of names)
        await collection.api.mergePatch(collection.at(name), { metadata: { finalizers: null } })
      expect(names).toEqual([])
    }
  })
}

describe.each(stores)('the collector of dependents, on the %s store', store => {
  let world: World
  let items: Collection
  let parts: Collection

  beforeAll(async () => {
    world = await serve(store, 'all')
    ;({ items, parts } = kindsOf(world))
  })
  afterEach(() => empty([parts, items]))
  afterAll(() => world?.end())

  it('collects the dependents of a deleted object in all generations, and nothing else', async () => {
    const owner = await items.create('owner', {})
    const other = await items.create('other', {})
    const child = await parts.create('child', {}, owned(to(owner)))
    await parts.create('grandchild', {}, owned(to(child)))
    await items.create('item-child', {}, owned(to(child)))
    await parts.create('shared', {}, owned(to(owner), to(other)))
    await parts.create('of-other', {}, owned(to(other)))
    await parts.create('free', {})
    objectOf(await world.api.delete(items.at('owner')))
    for (const name of ['child', 'grandchild']) await isGone(parts, name)
    await isGone(items, 'item-child')
    await eventually(async () => expect(referencesOf(await parts.read('shared'))).toEqual([to(other)]))
    await collectorHasPassed(parts)
    expect((await parts.list()).names.toSorted()).toEqual(['free', 'of-other', 'shared'])
    // With the last owner, the shared dependent goes.
    objectOf(await world.api.delete(items.at('other')))
    await isGone(parts, 'shared')
    await isGone(parts, 'of-other')
    expect((await parts.list()).names).toEqual(['free'])
  })

  it('removes an owner deleted in the foreground after its blocking dependents', async () => {
    const owner = await items.create('owner', {})
    const child = await parts.create('child', {}, owned(to(owner, true)))
    await parts.create('grandchild', {}, owned(to(child, true)))
    await parts.create('stuck', {}, { ...owned(to(owner, true)), finalizers: ['example.com/hold'] })
    await parts.create('not-blocking', {}, owned(to(owner)))
    const ends: (string | undefined)[] = []
    const watches = await Promise.all(
      [items, parts].map(collection => Watch.open(world.server.url, collection.path)),
    )
    for (const watch of watches) await watch.synced()
    const marked = objectOf(await world.api.delete(items.at('owner'), { propagationPolicy: 'Foreground' }))
    expect(marked.metadata.finalizers).toEqual(['foregroundDeletion'])
    for (const name of ['child', 'grandchild', 'not-blocking']) await isGone(parts, name)
    await eventually(async () => expect((await parts.read('stuck')).metadata.deletionTimestamp).toBeDefined())
    await collectorHasPassed(parts)
    expect((await items.read('owner')).metadata.finalizers).toEqual(['foregroundDeletion'])
    objectOf(await world.api.mergePatch(parts.at('stuck'), { metadata: { finalizers: null } }))
    await isGone(items, 'owner')
    for (const watch of watches) {
      await watch.until(({ story }) => story.some(line => /^DELETED (owner|stuck)$/.test(line)))
      for (const { type, name, version } of watch.changes)
        if (type === 'DELETED') ends[Number(version)] = name
      await watch.close()
    }
    const order = ends.filter(name => name !== undefined && !name.startsWith('sentinel'))
    expect(order.at(-1)).toBe('owner')
    expect(order.indexOf('grandchild')).toBeLessThan(order.indexOf('child'))
    expect(order.toSorted()).toEqual(['child', 'grandchild', 'not-blocking', 'owner', 'stuck'])
  })

  it('orphans dependents on request and removes their owner references', async () => {
    const owner = await items.create('owner', {})
    const other = await items.create('other', {})
    const orphan = await parts.create('orphan', { note: 'mine' }, owned(to(owner, true)))
    await parts.create('shared', {}, owned(to(owner), to(other)))
    const child = await parts.create('of-orphan', {}, owned(to(orphan)))
    objectOf(await world.api.delete(items.at('owner'), { propagationPolicy: 'Orphan' }))
    await isGone(items, 'owner')
    await collectorHasPassed(parts)
    const left = await parts.read('orphan')
    expect(left.metadata.uid).toBe(orphan.metadata.uid)
    expect(left.spec).toEqual({ note: 'mine' })
    expect(referencesOf(left)).toEqual([])
    expect(referencesOf(await parts.read('shared'))).toEqual([to(other)])
    expect((await parts.read('of-orphan')).metadata.version).toBe(child.metadata.version)
  })

  it('compares uids: it collects dependents of an earlier owner of the name, not those of the current one', async () => {
    const first = await items.create('owner', {})
    await parts.create('old', {}, owned(to(first)))
    objectOf(await world.api.delete(items.at('owner')))
    const second = await items.create('owner', {})
    await parts.create('new', {}, owned(to(second)))
    await parts.create('late', {}, owned(to(first)))
    await isGone(parts, 'old')
    await isGone(parts, 'late')
    await collectorHasPassed(parts)
    expect((await parts.list()).names).toEqual(['new'])
  })

  it('collects dependents of an owner that never existed, but not of an unknown kind', async () => {
    const owner = await items.create('owner', {})
    await parts.create('of-nobody', {}, owned(nobody()))
    await parts.create('of-another-uid', {}, owned({ ...nobody(), name: 'owner' }))
    await parts.create('of-a-stranger', {}, owned({ ...nobody(), kind: 'Stranger' }))
    await parts.create('of-kubernetes', {}, owned({ ...nobody(), apiVersion: 'v1', kind: 'ConfigMap' }))
    await parts.create('of-both', {}, owned(nobody(), { ...nobody(), kind: 'Stranger' }))
    await parts.create('by-version', {}, owned({ ...to(owner), apiVersion: 'items.example.com/v9' }))
    await isGone(parts, 'of-nobody')
    await isGone(parts, 'of-another-uid')
    await collectorHasPassed(parts)
    expect((await parts.list()).names.toSorted()).toEqual([
      'by-version',
      'of-a-stranger',
      'of-both',
      'of-kubernetes',
    ])
    expect(referencesOf(await parts.read('of-both'))).toEqual([{ ...nobody(), kind: 'Stranger' }])
    // Another version of the kind is the same kind.
    objectOf(await world.api.delete(items.at('owner')))
    await isGone(parts, 'by-version')
  })

  it('leaves dependents alone while the kind of their owner is not served or its plugin has failed', async () => {
    const owner = await items.create('owner', {})
    const gone = await items.create('gone', {})
    const kept = await parts.create('kept', {}, owned(to(owner)))
    const waiting = await parts.create('waiting', {}, owned(to(owner)))
    const [itemsDir = '', partsDir = ''] = world.plugins
    const restart = async (...plugins: string[]) => {
      // A drained process releases its lease, so that it need not expire first.
      await world.server.kill('SIGTERM')
      await world.server.restart({ plugins })
    }
    await restart(partsDir)
    refusalOf(await world.api.get(items.at('owner')), 404)
    const late = await parts.create('late', {}, owned(nobody('late')))
    const witness = await parts.create('witness', {})
    await parts.create('of-part', {}, owned({ ...to(witness), uid: nobody().uid }))
    await isGone(parts, 'of-part')
    const sound = await readFile(join(itemsDir, 'index.js'), 'utf8')
    const failing = sound.replace(
      '[Item, Device, Vault] ',
      "[Item, Device, Vault], setup() { throw new Error('no') } ",
    )
    await writeFiles(itemsDir, { 'index.js': failing })
    await restart(itemsDir, partsDir)
    refusalOf(await world.api.get(items.at('owner')), 503)
    await parts.create('of-part', {}, owned({ ...to(witness), uid: nobody().uid }))
    await isGone(parts, 'of-part')
    for (const part of [kept, waiting, late])
      expect((await parts.read(part.metadata.name)).metadata.version).toBe(part.metadata.version)
    await writeFiles(itemsDir, { 'index.js': sound })
    await restart(itemsDir, partsDir)
    await isGone(parts, 'late')
    await collectorHasPassed(parts)
    expect((await parts.list()).names.toSorted()).toEqual(['kept', 'waiting', 'witness'])
    expect((await items.read('gone')).metadata.uid).toBe(gone.metadata.uid)
  })

  it('carries on after the server was killed in the middle', async () => {
    const owner = await items.create('owner', {})
    const parent = await items.create('parent', {})
    const other = await items.create('other', {})
    const count = 150
    for (let n = 0; n < count; n++) {
      await parts.create(`part-${n}`, {}, owned(to(owner)))
      await parts.create(`orphan-${n}`, {}, owned(to(parent)))
      if (n % 10 === 0) await parts.create(`kept-${n}`, {}, owned(to(other)))
    }
    await Promise.all([
      world.api.delete(items.at('owner')),
      world.api.delete(items.at('parent'), { propagationPolicy: 'Orphan' }),
    ])
    await eventually(async () => expect((await parts.list()).names.length).toBeLessThan(2.1 * count))
    await world.server.kill('SIGKILL')
    await world.server.restart()
    // On etcd, the killed process's lease has to expire first.
    await isGone(items, 'parent')
    await eventually(async () =>
      expect((await parts.list()).names.filter(name => name.startsWith('part-'))).toEqual([]),
    )
    await collectorHasPassed(parts)
    const left = (await parts.list()).items
    const orphans = left.filter(({ metadata }) => metadata.name.startsWith('orphan-'))
    expect(orphans.length).toBe(count)
    expect(orphans.flatMap(referencesOf)).toEqual([])
    expect(left.length).toBe(count + count / 10)
  })

  it('never collects a dependent that was adopted at the last moment', async () => {
    const owner = await items.create('owner', {})
    const adopter = await items.create('adopter', {})
    const names = Array.from({ length: 120 }, (_, n) => `part-${n}`)
    for (const name of names) await parts.create(name, {}, owned(to(owner)))
    objectOf(await world.api.delete(items.at('owner')))
    const adopted: string[] = []
    await Promise.all(
      names.toReversed().map(async name => {
        const patch = [{ op: 'add', path: '/metadata/ownerReferences/-', value: to(adopter) }]
        const answer = await world.api.jsonPatch(parts.at(name), patch)
        if (answer.status === 200) adopted.push(name)
        else refusalOf(answer, 404)
      }),
    )
    await eventually(async () =>
      expect((await parts.list()).items.filter(part => referencesOf(part).length !== 1)).toEqual([]),
    )
    await collectorHasPassed(parts)
    expect((await parts.list()).names.toSorted()).toEqual(adopted.toSorted())
  })

  it('removes objects that own each other, with any deletion policy', async () => {
    const circle = async (name: string) => {
      const a = await items.create(`${name}-a`, {})
      const b = await parts.create(`${name}-b`, {}, owned(to(a, true)))
      const c = await parts.create(`${name}-c`, {}, owned(to(b, true)))
      objectOf(await world.api.mergePatch(items.at(`${name}-a`), { metadata: owned(to(c, true)) }))
    }
    for (const name of ['background', 'foreground', 'all', 'alive']) await circle(name)
    const own = await parts.create('own', {})
    objectOf(await world.api.mergePatch(parts.at('own'), { metadata: owned(to(own, true)) }))
    await collectorHasPassed(parts)
    objectOf(await world.api.delete(items.at('background-a')))
    const foreground = { propagationPolicy: 'Foreground' }
    objectOf(await world.api.delete(items.at('foreground-a'), foreground))
    objectOf(await world.api.delete(parts.at('own'), foreground))
    await Promise.all([
      world.api.delete(items.at('all-a'), foreground),
      world.api.delete(parts.at('all-b'), foreground),
      world.api.delete(parts.at('all-c'), foreground),
    ])
    for (const name of ['background', 'foreground', 'all']) {
      await isGone(items, `${name}-a`)
      await isGone(parts, `${name}-b`)
      await isGone(parts, `${name}-c`)
    }
    await isGone(parts, 'own')
    await collectorHasPassed(parts)
    expect((await parts.list()).names.toSorted()).toEqual(['alive-b', 'alive-c'])
    expect((await items.list()).names).toEqual(['alive-a'])
  })

  it("applies the policy of a collection's deletion to each object, and does nothing for a dry run", async () => {
    for (const name of ['a', 'b']) {
      const owner = await items.create(name, {}, { labels: { 'example.com/set': 'x' } })
      await parts.create(`of-${name}`, {}, owned(to(owner, true)))
    }
    const bystander = await items.create('bystander', {})
    const query = '?labelSelector=example.com/set=x'
    for (const policy of ['Foreground', 'Orphan', 'Background'])
      expect(
        (await world.api.delete(`${items.path}${query}&dryRun=All&propagationPolicy=${policy}`)).status,
      ).toBe(200)
    await collectorHasPassed(parts)
    expect((await parts.list()).names.length).toBe(2)
    expect((await items.read('a')).metadata.finalizers).toEqual([])
    await world.api.delete(`${items.path}${query}&propagationPolicy=Orphan`)
    await isGone(items, 'a')
    await isGone(items, 'b')
    await collectorHasPassed(parts)
    expect((await parts.list()).items.flatMap(referencesOf)).toEqual([])
    expect((await items.list()).names).toEqual([bystander.metadata.name])
  })
})

describe.each(stores)('the collector in a process of its own, on the %s store', store => {
  it('collects dependents of owners deleted while it did not run', async () => {
    const world = await serve(store, 'apiserver')
    cleanups.push(() => world.end())
    const { items, parts } = kindsOf(world)
    const first = await startControllers(world)
    const owner = await items.create('owner', {})
    const other = await items.create('other', {})
    const parent = await items.create('parent', {})
    await parts.create('a', {}, owned(to(owner)))
    await parts.create('b', {}, owned(to(other)))
    await parts.create('c', {}, owned(to(parent, true)))
    await collectorHasPassed(parts)
    await first.kill('SIGTERM')
    objectOf(await world.api.delete(items.at('owner')))
    objectOf(await world.api.delete(items.at('parent'), { propagationPolicy: 'Foreground' }))
    await startControllers(world)
    await isGone(parts, 'a')
    await isGone(parts, 'c')
    await isGone(items, 'parent')
    await collectorHasPassed(parts)
    expect((await parts.list()).names).toEqual(['b'])
  })
})
