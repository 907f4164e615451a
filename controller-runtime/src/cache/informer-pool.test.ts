import { afterEach, describe, expect, test } from 'vitest'
import { eventually } from '../../../test/support/sdk/eventually.ts'
import { MemoryServer } from '../../../test/support/sdk/memory-server.ts'
import { Gadget, PlainGadget } from '../../../test/support/sdk/sample-models.ts'
import { singleValueIndex } from '../api/index-spec.ts'
import type { ObjectOf } from '../api/model.ts'
import { SelectorError } from '../api/selector.ts'
import { createClient } from '../client/create-client.ts'
import { InformerPool, informerKey } from './informer-pool.ts'

const cleanUps: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0)) await cleanUp()
})

function setUp() {
  const server = new MemoryServer()
  const pool = new InformerPool({ client: createClient(server) })
  cleanUps.push(() => pool.stop())
  pool.start()
  return { server, pool }
}

describe('the key of an informer', () => {
  test('is the same for equivalent selectors, however they are written', () => {
    const key = informerKey(Gadget, {
      labelSelector: ['b=1', 'a in (y,x)'],
      fieldSelector: 'spec.colour=red',
    })
    expect(
      informerKey(
        { ...Gadget },
        { labelSelector: 'a in (x, y),b==1,b=1', fieldSelector: ['spec.colour==red'] },
      ),
    ).toBe(key)
    expect(informerKey(Gadget)).toBe(informerKey(Gadget, { labelSelector: '', fieldSelector: [] }))
  })

  test('differs by kind, version, terms, and label or field selector', () => {
    const keys = [
      informerKey(Gadget),
      informerKey(PlainGadget),
      informerKey({ ...Gadget, apiVersion: 'demo.example.com/v2' }),
      informerKey(Gadget, { labelSelector: 'a=b' }),
      informerKey(Gadget, { labelSelector: 'a!=b' }),
      informerKey(Gadget, { labelSelector: 'a' }),
      informerKey(Gadget, { fieldSelector: 'a=b' }),
      informerKey(Gadget, { fieldSelector: 'a=b\\,c' }),
      informerKey(Gadget, { fieldSelector: 'a in (b,c)' }),
      ...['a<b', 'a<=b', 'a>b', 'a>=b'].map(fieldSelector => informerKey(Gadget, { fieldSelector })),
    ]
    expect(new Set(keys).size).toBe(keys.length)
  })

  test('throws for an invalid selector', () => {
    expect(() => informerKey(Gadget, { labelSelector: 'a in b' })).toThrow(SelectorError)
  })
})

describe('a shared informer', () => {
  test('is one watch for equal requests, and another for different ones', async () => {
    const { server, pool } = setUp()
    const first = pool.acquire(Gadget, { labelSelector: 'a=1,b=2' })
    const second = pool.acquire({ ...Gadget }, { labelSelector: ['b=2', 'a=1'] })
    const other = pool.acquire(Gadget)
    expect(second.informer).toBe(first.informer)
    expect(other.informer).not.toBe(first.informer)
    await Promise.all(pool.informers.map(informer => informer.synced))
    expect(server.openWatches).toBe(2)
  })

  test('stops with its last lease; a later lease starts a new one', async () => {
    const { server, pool } = setUp()
    const first = pool.acquire(Gadget)
    const second = pool.acquire(Gadget)
    await first.informer.synced
    await first.release()
    await first.release()
    expect(server.openWatches).toBe(1)
    await second.release()
    expect(server.openWatches).toBe(0)
    const third = pool.acquire(Gadget)
    expect(third.informer).not.toBe(first.informer)
    await third.informer.synced
    expect(server.openWatches).toBe(1)
  })

  test('that is acquired before the pool starts, starts with it', async () => {
    const server = new MemoryServer()
    const pool = new InformerPool({ client: createClient(server) })
    cleanUps.push(() => pool.stop())
    const { informer } = pool.acquire(Gadget)
    expect(informer.hasSynced).toBe(false)
    pool.start()
    await informer.synced
  })

  test('is not shared between different transforms', async () => {
    const { server, pool } = setUp()
    const client = createClient(server)
    await client.create(Gadget, {
      metadata: { name: 'a', annotations: { big: 'x'.repeat(1000) } },
      spec: { size: 1 },
    })
    const transform = ({
      metadata: { annotations, ...metadata },
      ...rest
    }: ObjectOf<typeof Gadget>): ObjectOf<typeof Gadget> => ({ ...rest, metadata })
    const slim = pool.acquire(Gadget, { transform })
    const same = pool.acquire(Gadget, { transform })
    const whole = pool.acquire(Gadget)
    expect(same.informer).toBe(slim.informer)
    await Promise.all([slim.informer.synced, whole.informer.synced])
    expect(slim.informer.get('a')?.metadata.annotations).toBeUndefined()
    expect(whole.informer.get('a')?.metadata.annotations).toBeDefined()
    await slim.release()
    await same.release()
    await client.patch(Gadget, 'a', { spec: { size: 2 } })
    await eventually(() => whole.informer.get('a')?.spec.size === 2)
    expect(slim.informer.get('a')?.spec.size).toBe(1)
  })

  describe('of declarations with different indexes', () => {
    type G = ObjectOf<typeof Gadget>
    const byColour = singleValueIndex<G>({ name: 'spec.colour', indexFunc: ({ spec }) => spec.colour })
    const bySize = singleValueIndex<G>({ name: 'spec.size', indexFunc: ({ spec }) => `${spec.size}` })
    const other = singleValueIndex<G>({ name: 'spec.colour', indexFunc: () => 'x' })
    const declaring = (...indexes: (() => (typeof Gadget.indexes)[number])[]) => ({
      ...Gadget,
      indexes: indexes.map(index => index()),
    })
    const names = (objects: readonly { metadata: { name: string } }[]) => objects.map(o => o.metadata.name)

    async function setUpRed() {
      const { server, pool } = setUp()
      await createClient(server).create(Gadget, {
        metadata: { name: 'a' },
        spec: { size: 1, colour: 'red' },
      })
      return { server, pool }
    }

    test('has the indexes of all of them, whichever comes first', async () => {
      const { server, pool } = await setUpRed()
      const first = pool.acquire(declaring(byColour)).informer
      await first.synced
      const second = pool.acquire(declaring(bySize)).informer
      await second.synced
      expect(names(second.byIndex('spec.size', '1'))).toEqual(['a'])
      expect(names(first.byIndex('spec.colour', 'red'))).toEqual(['a'])
      expect(server.openWatches).toBe(1)
    })

    test('is shared only if indexes of the same name are the same', async () => {
      const { server, pool } = await setUpRed()
      const kept = pool.acquire(declaring(byColour))
      // The kind after its plugin was reloaded, while another plugin keeps the informer.
      const reloaded = pool.acquire(declaring(bySize, other))
      await Promise.all([kept.informer.synced, reloaded.informer.synced])
      expect(names(reloaded.informer.byIndex('spec.colour', 'x'))).toEqual(['a'])
      expect(names(kept.informer.byIndex('spec.colour', 'red'))).toEqual(['a'])
      expect(() => kept.informer.byIndex('spec.size', '1')).toThrow(TypeError)
      expect(pool.acquire(declaring(other)).informer).toBe(reloaded.informer)
      await kept.release()
      expect(server.openWatches).toBe(1)
    })
  })
})
