import { arrayOf, fieldsOf, textOf } from '../../support/json.ts'
import { bothStores } from '../../support/worlds.ts'
import type { Attack, Scene } from '../attack.ts'
import { call, type Reply } from '../call.ts'
import { neighbourhood } from '../witness.ts'

/** Attacks of a writer with objects that are costly to hold, to change, or to load at startup. */

const { collection } = neighbourhood

function numbered<T>(count: number, make: (n: number) => T): T[] {
  return Array.from({ length: count }, (_, n) => make(n))
}

function labels(count: number): Record<string, string> {
  return Object.fromEntries(numbered(count, n => [`l${n}`, '']))
}

function create(scene: Scene, name: string, metadata: object, spec: object = {}): Promise<Reply> {
  const body = { apiVersion: 'items.example.com/v1', kind: 'Item', metadata: { name, ...metadata }, spec }
  return call(scene.target, {
    method: 'POST',
    path: collection,
    as: 'writer',
    body: JSON.stringify(body),
    signal: scene.signal,
  })
}

function patch(scene: Scene, name: string, change: object): Promise<Reply> {
  return call(scene.target, {
    method: 'PATCH',
    path: `${collection}/${name}`,
    as: 'writer',
    type: 'application/merge-patch+json',
    body: JSON.stringify(change),
    signal: scene.signal,
  })
}

/** Removes an object in any state. */
async function remove(scene: Scene, name: string): Promise<void> {
  const path = `${collection}/${name}`
  const { status } = await call(scene.target, { path, as: 'writer' })
  if (status !== 200) return
  await call(scene.target, { method: 'DELETE', path, as: 'writer' })
  await patch({ ...scene, signal: AbortSignal.timeout(60_000) }, name, { metadata: { finalizers: null } })
}

/** An object past a bound is refused with 422. If it is accepted, it is changed and the server is restarted with it. */
function pastBound(
  what: string,
  object: () => { readonly metadata?: object; readonly spec?: object },
): Attack {
  return {
    name: `an object with ${what}, one label more, and a restart`,
    attacker: 'writer',
    stores: bothStores,
    async run(scene) {
      const { metadata = {}, spec = {} } = object()
      try {
        const { status, bytes, text } = await create(scene, 'huge', metadata, spec)
        scene.check(status === 422, `creating it got ${status} instead of 422 (${text.slice(0, 100)})`)
        scene.check(bytes < 64 * 1024, `the response has ${bytes} bytes`)
        if (status !== 201) return
        const began = performance.now()
        const changed = await patch(scene, 'huge', { metadata: { labels: { more: 'yes' } } })
        scene.checkMs(`a label patch (${changed.status})`, performance.now() - began, 1_000)
        scene.checkMs('a start with it', await scene.restart(), 5_000)
      } finally {
        await remove(scene, 'huge')
      }
    },
  }
}

/** Adds labels to an object directly in etcd, past the server's bounds. */
async function widen(scene: Scene, name: string, count: number): Promise<void> {
  const { etcd } = scene.target
  if (etcd === undefined) throw new Error('this attack needs the etcd store')
  const ask = async (what: 'range' | 'put', body: object) => {
    const { signal } = scene
    const response = await fetch(`${etcd.endpoint}/v3/kv/${what}`, {
      method: 'POST',
      body: JSON.stringify(body),
      signal,
    })
    if (!response.ok) throw new Error(`etcd responded with ${response.status}`)
    return fieldsOf(await response.json())
  }
  const everything = Buffer.from([0]).toString('base64')
  const seed = `"${seedLabel}":"${name}"`
  for (const pair of arrayOf((await ask('range', { key: everything, range_end: everything })).kvs)) {
    const { key, value } = fieldsOf(pair)
    const text = Buffer.from(textOf(value), 'base64').toString()
    if (!text.includes(seed)) continue
    const more = JSON.stringify(labels(count)).slice(1, -1)
    const wide = Buffer.from(text.replace(seed, `${seed},${more}`)).toString('base64')
    await ask('put', { key, value: wide })
    return
  }
  throw new Error(`etcd does not hold ${name}`)
}

const seedLabel = 'attack.example.com/seed'

export const objectAttacks: readonly Attack[] = [
  pastBound('29,000 labels', () => ({ metadata: { labels: labels(29_000) } })),
  pastBound('90,000 index values', () => ({ spec: { tags: numbered(90_000, n => `${n}`) } })),
  pastBound('90,000 finalizers', () => ({ metadata: { finalizers: numbered(90_000, n => `a/${n}`) } })),
  pastBound('1,000 KiB of annotations', () => ({
    metadata: { annotations: { a: 'x'.repeat(1_000 * 1024) } },
  })),
  {
    name: 'an object stored with 50,000 labels before there was a bound, and a restart',
    attacker: 'writer',
    stores: ['etcd'],
    // The history keeps the changes before its deletion: three times some 8 MiB.
    keptBytes: 24 * 1024 * 1024,
    async run(scene) {
      const name = 'wide'
      const get = async (path: string) =>
        (await call(scene.target, { path, as: 'neighbour', signal: scene.signal })).status
      try {
        await create(scene, name, { labels: { [seedLabel]: name } })
        await widen(scene, name, 50_000)
        scene.checkMs('a start with it', await scene.restart(), 5_000)
        scene.check((await get(`${collection}/${name}`)) === 200, 'it cannot be read')
        scene.check((await get(`${collection}?size=5`)) === 200, 'its kind cannot be listed')
        const more = await patch(scene, name, { metadata: { labels: { more: 'yes' } } })
        scene.check(more.status === 422, `one label more got ${more.status} instead of 422`)
        const fewer = await patch(scene, name, { metadata: { labels: { l0: null } } })
        scene.check(fewer.status === 200, `one label less got ${fewer.status} instead of 200`)
        const request = { method: 'DELETE', path: `${collection}/${name}`, as: 'writer' as const }
        const { status } = await call(scene.target, { ...request, signal: scene.signal })
        scene.check(status === 200, `its deletion got ${status} instead of 200`)
      } finally {
        await remove(scene, name)
      }
    },
  },
  {
    name: '3,000 changes of an object with 1,000 labels',
    attacker: 'writer',
    longOnly: true,
    // The bound of the history of a kind, and what the estimates behind it leave out.
    keptBytes: 96 * 1024 * 1024,
    async run(scene) {
      const name = 'labelled'
      try {
        const { status } = await create(scene, name, { labels: labels(1_000) })
        scene.check(status === 201, `creating it got ${status}`)
        for (let n = 0; n < 3_000 && !scene.signal.aborted; n++) {
          const changed = await patch(scene, name, { spec: { op: `${n}` } })
          scene.check(changed.status === 200, `change ${n} got ${changed.status}`)
          if (changed.status !== 200) break
        }
      } finally {
        await remove(scene, name)
      }
    },
  },
  {
    name: 'objects at their bounds, and one past each',
    attacker: 'writer',
    stores: bothStores,
    async run(scene) {
      const owner = (n: number) => ({
        apiVersion: 'items.example.com/v1',
        kind: 'Item',
        name: `owner-${n}`,
        uid: `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`,
      })
      const kinds: Readonly<
        Record<string, { readonly bound: number; of(count: number): { metadata?: object; spec?: object } }>
      > = {
        labels: { bound: 1_000, of: count => ({ metadata: { labels: labels(count) } }) },
        finalizers: {
          bound: 64,
          of: count => ({ metadata: { finalizers: numbered(count, n => `a.example.com/${n}`) } }),
        },
        'owner references': {
          bound: 64,
          of: count => ({ metadata: { ownerReferences: numbered(count, owner) } }),
        },
        'index values': { bound: 1_000, of: count => ({ spec: { tags: numbered(count, n => `t${n}`) } }) },
      }
      // Dry runs: the collector would remove objects whose owners do not exist.
      const path = `${collection}?dryRun=All`
      const send = ({ metadata = {}, spec = {} }: { metadata?: object; spec?: object }) =>
        call(scene.target, {
          ...{ method: 'POST', path, as: 'writer', signal: scene.signal },
          body: JSON.stringify({
            ...{ apiVersion: 'items.example.com/v1', kind: 'Item' },
            ...{ metadata: { name: 'bound', ...metadata }, spec },
          }),
        })
      for (const [what, { bound, of }] of Object.entries(kinds)) {
        const at = await send(of(bound))
        scene.check(
          at.status === 201,
          `${bound} ${what}: ${at.status} instead of 201 (${at.text.slice(0, 200)})`,
        )
        const past = await send(of(bound + 1))
        scene.check(past.status === 422, `${bound + 1} ${what}: ${past.status} instead of 422`)
        const names = past.text.replaceAll(',', '').includes(String(bound))
        scene.check(
          past.status !== 422 || names,
          `the refusal of ${bound + 1} ${what} does not name the limit`,
        )
      }
    },
  },
]
