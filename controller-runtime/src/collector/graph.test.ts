import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { ApiObject, ObjectMeta, OwnerReference } from '../api/object.ts'
import { Graph, keyOf, type Work } from './graph.ts'

const scope = 'Cluster'
const Item = { group: 'items.example.com', kind: 'Item', plural: 'items', scope } as const
const Part = { group: 'parts.example.com', kind: 'Part', plural: 'parts', scope } as const

function object(name: string, extra: Partial<ObjectMeta> = {}): ApiObject {
  const metadata: ObjectMeta = {
    name,
    uid: `uid-of-${name}`,
    version: '1',
    resourceVersion: '1',
    generation: 1,
    creationTimestamp: '2030-01-01T00:00:00.000Z',
    ...extra,
  }
  return { apiVersion: 'x/v1', kind: 'x', metadata, spec: undefined }
}

function to(
  kind: typeof Item | typeof Part,
  name: string,
  blockOwnerDeletion = false,
  version = 'v1',
): { ownerReferences: OwnerReference[] } {
  const { group, kind: kindName } = kind
  return {
    ownerReferences: [
      {
        apiVersion: `${group}/${version}`,
        kind: kindName,
        name,
        uid: `uid-of-${name}`,
        blockOwnerDeletion,
      },
    ],
  }
}

const deleting = (finalizer: string) => ({
  deletionTimestamp: '2030-01-01T00:00:00.000Z',
  finalizers: [finalizer],
})

const names = ({ checks, syncs, endings }: Work) => ({
  checks: [...checks].map(({ name }) => name),
  syncs: [...syncs].map(({ object }) => object),
  endings: [...endings].map(({ object }) => object),
})

describe('memory', () => {
  test('an object without owners that does not wait is not kept', () => {
    const graph = new Graph()
    for (let n = 0; n < 100; n++) graph.apply(Item, object(`item-${n}`))
    expect(graph.size).toEqual({ nodes: 0, owners: 0 })
  })

  test('an owner is kept while it has dependents', () => {
    const graph = new Graph()
    graph.apply(Part, object('a', to(Item, 'owner')))
    graph.apply(Part, object('b', to(Item, 'owner')))
    expect(graph.size).toEqual({ nodes: 2, owners: 1 })
    graph.remove(Part, object('a'))
    graph.apply(Part, object('b'))
    expect(graph.size).toEqual({ nodes: 0, owners: 0 })
  })
})

describe('due work', () => {
  test('a new owner is checked once, whatever version of its kind the references name', () => {
    const graph = new Graph()
    expect(names(graph.apply(Part, object('a', to(Item, 'owner')))).checks).toEqual(['owner'])
    expect(names(graph.apply(Part, object('b', to(Item, 'owner', true, 'v2')))).checks).toEqual([])
    expect(graph.size.owners).toBe(1)
  })

  test('an owner is checked again for a dependent that is newer than the last check, as after a restore', () => {
    const graph = new Graph()
    const at = (version: string) => object('a', { ...to(Item, 'owner'), version })
    const [owner] = graph.apply(Part, at('5')).checks
    if (owner === undefined) throw new Error('the owner is not checked')
    expect(names(graph.setStanding(owner, 'absent')).syncs).toEqual(['a'])
    expect(names(graph.doubt(at('5').metadata)).checks).toEqual([])
    expect(names(graph.doubt(at('1000005').metadata)).checks).toEqual(['owner'])
    expect(owner.standing).toBe('unchecked')
    graph.setStanding(owner, 'absent')
    expect(names(graph.doubt(at('1000005').metadata)).checks).toEqual([])
  })

  test('a check that began before a dependent was seen does not count for it', () => {
    const graph = new Graph()
    const at = (name: string, version: string) => object(name, { ...to(Item, 'owner'), version })
    const [owner] = graph.apply(Part, at('a', '5')).checks
    if (owner === undefined) throw new Error('the owner is not checked')
    const { seen } = owner
    graph.apply(Part, at('b', '6'))
    graph.setStanding(owner, 'absent', seen)
    expect(names(graph.doubt(at('a', '5').metadata)).checks).toEqual([])
    expect(names(graph.doubt(at('b', '6').metadata)).checks).toEqual(['owner'])
  })

  test('an owner reported as deleted is checked; its dependents wait for the result', () => {
    const graph = new Graph()
    graph.apply(Part, object('a', to(Item, 'owner')))
    const owner = graph.owner(keyOf(Item, object('owner').metadata))
    if (owner !== undefined) graph.setStanding(owner, 'present')
    const work = graph.remove(Item, object('owner'))
    expect(names(work)).toEqual({ checks: ['owner'], syncs: [], endings: [] })
    expect(owner?.standing).toBe('unchecked')
  })

  test('a dependent is due when one of its owners is absent, also if it is added later', () => {
    const graph = new Graph()
    graph.apply(Part, object('a', to(Item, 'owner')))
    const owner = graph.owner(keyOf(Item, object('owner').metadata))
    expect(owner && names(graph.setStanding(owner, 'present')).syncs).toEqual([])
    expect(owner && names(graph.setStanding(owner, 'absent')).syncs).toEqual(['a'])
    expect(names(graph.apply(Part, object('late', to(Item, 'owner')))).syncs).toEqual(['late'])
  })

  test('an owner that starts to wait is checked again', () => {
    const graph = new Graph()
    graph.apply(Part, object('a', to(Item, 'owner')))
    const owner = graph.owner(keyOf(Item, object('owner').metadata))
    if (owner !== undefined) graph.setStanding(owner, 'present')
    const work = graph.apply(Item, object('owner', deleting('orphan')))
    expect(names(work)).toEqual({ checks: ['owner'], syncs: [], endings: ['owner'] })
    expect(names(graph.apply(Item, object('owner', deleting('orphan')))).checks).toEqual([])
  })

  test('a waiting owner is due when its last blocking dependent is gone', () => {
    const graph = new Graph()
    graph.apply(Part, object('a', to(Item, 'owner', true)))
    graph.apply(Part, object('b', to(Item, 'owner', true)))
    graph.apply(Part, object('loose', to(Item, 'owner')))
    graph.apply(Item, object('owner', deleting('foregroundDeletion')))
    expect(names(graph.remove(Part, object('a'))).endings).toEqual([])
    expect(names(graph.apply(Part, object('b', to(Item, 'owner')))).endings).toEqual(['owner'])
    graph.apply(Item, object('owner', deleting('orphan')))
    expect(names(graph.remove(Part, object('b'))).endings).toEqual([])
    expect(names(graph.remove(Part, object('loose'))).endings).toEqual(['owner'])
  })

  test('after a new list, missing objects are gone: dependents are removed, owners are checked', () => {
    const graph = new Graph()
    graph.apply(Part, object('a', to(Item, 'here')))
    graph.apply(Part, object('b', to(Item, 'missing')))
    const here = keyOf(Item, object('here').metadata)
    expect(names(graph.retain(Item, new Set([here]))).checks).toEqual(['missing'])
    expect(graph.owner(here)?.standing).toBe('present')
    graph.retain(Part, new Set())
    expect(graph.size).toEqual({ nodes: 0, owners: 0 })
  })

  test('an object of another uid is another object', () => {
    const graph = new Graph()
    graph.apply(Item, object('item', to(Part, 'x')))
    graph.apply(Part, object('a', to(Item, 'item')))
    const work = graph.apply(Item, object('item', { uid: 'another' }))
    expect(names(work).checks).toEqual(['item'])
    expect(graph.node('items.example.com/items', 'item')).toBeUndefined()
  })
})

describe('circles', () => {
  test('are found through any number of waiting objects, and only through those', () => {
    const graph = new Graph()
    const waiting = deleting('foregroundDeletion')
    graph.apply(Part, object('a', { ...waiting, ...to(Part, 'c', true) }))
    graph.apply(Part, object('b', { ...waiting, ...to(Part, 'a', true) }))
    graph.apply(Part, object('c', to(Part, 'b', true)))
    const through = (name: string) => {
      const node = graph.node('parts.example.com/parts', name)
      return node && graph.circlesThrough(node).map(dependent => dependent.object)
    }
    expect(through('a')).toEqual([])
    graph.apply(Part, object('c', { ...waiting, ...to(Part, 'b', true) }))
    expect(through('a')).toEqual(['b'])
    expect(through('b')).toEqual(['c'])
    graph.apply(Part, object('b', { ...waiting, ...to(Part, 'a', false) }))
    expect(through('a')).toEqual([])
  })

  test('of one object are found too', () => {
    const graph = new Graph()
    graph.apply(Part, object('a', { ...deleting('foregroundDeletion'), ...to(Part, 'a', true) }))
    const node = graph.node('parts.example.com/parts', 'a')
    expect(node && graph.circlesThrough(node)).toEqual([node])
  })
})

test('after any changes the graph equals one built from the current objects', () => {
  const name = fc.constantFrom('a', 'b', 'c', 'd')
  const kind = fc.constantFrom(Item, Part)
  const meta = fc.record({
    uid: fc.constantFrom('1', '2'),
    owners: fc.array(fc.record({ kind, name, uid: fc.constantFrom('1', '2'), blocking: fc.boolean() }), {
      maxLength: 3,
    }),
    wait: fc.constantFrom(undefined, 'orphan', 'foregroundDeletion'),
  })
  const step = fc.oneof(
    fc.record({ do: fc.constant('apply' as const), kind, name, meta }),
    fc.record({ do: fc.constant('remove' as const), kind, name, meta }),
    fc.record({ do: fc.constant('retain' as const), kind, name, meta }),
  )
  fc.assert(
    fc.property(fc.array(step, { maxLength: 30 }), steps => {
      const graph = new Graph()
      const present = new Map<string, { kind: typeof Item | typeof Part; object: ApiObject }>()
      for (const { do: what, kind: of, name: called, meta: given } of steps) {
        const at = `${of.plural}/${called}`
        const made = object(called, {
          uid: given.uid,
          ...(given.wait && deleting(given.wait)),
          ownerReferences: given.owners.map(owner => ({
            apiVersion: `${owner.kind.group}/v1`,
            kind: owner.kind.kind,
            name: owner.name,
            uid: owner.uid,
            blockOwnerDeletion: owner.blocking,
          })),
        })
        if (what === 'apply') {
          graph.apply(of, made)
          present.set(at, { kind: of, object: made })
        } else if (what === 'remove') {
          const known = present.get(at)
          if (known !== undefined) graph.remove(of, known.object)
          present.delete(at)
        } else {
          const kept = present.get(at)
          graph.retain(of, new Set(kept ? [keyOf(of, kept.object.metadata)] : []))
          for (const key of [...present.keys()])
            if (key.startsWith(`${of.plural}/`) && key !== at) present.delete(key)
        }
      }
      const fresh = new Graph()
      for (const { kind: of, object: each } of present.values()) fresh.apply(of, each)
      expect(graph.size).toEqual(fresh.size)
      for (const { object: each } of present.values()) {
        for (const of of [Item, Part]) {
          for (const uid of ['1', '2']) {
            const key = keyOf(of, { name: each.metadata.name, uid })
            expect(shape(graph, key)).toEqual(shape(fresh, key))
          }
        }
      }
    }),
    { numRuns: 300 },
  )
})

function shape(graph: Graph, key: string) {
  const owner = graph.owner(key)
  return (
    owner && {
      blocking: owner.blocking,
      dependents: [...owner.dependents].map(node => `${node.key} ${node.phase}`).toSorted(),
    }
  )
}

describe('owners of a namespaced kind', () => {
  const Seat = { group: 'seats.example.com', kind: 'Seat', plural: 'seats', scope: 'Namespaced' } as const
  const references = (name: string) => ({
    ownerReferences: [
      {
        apiVersion: 'seats.example.com/v1',
        kind: 'Seat',
        name,
        uid: `uid-of-${name}`,
        blockOwnerDeletion: true,
      },
    ],
  })
  const isNamespaced = (_group: string, kind: string) => kind === 'Seat'
  const places = ({ checks }: Work) => [...checks].map(({ namespace, name }) => `${namespace}/${name}`)

  test('are in the namespaces of their dependents', () => {
    const graph = new Graph(isNamespaced)
    const near = graph.apply(Seat, object('x', { namespace: 'a', ...references('owner') }))
    const far = graph.apply(Seat, object('x', { namespace: 'b', uid: 'uid-of-far', ...references('owner') }))
    expect([...places(near), ...places(far)]).toEqual(['a/owner', 'b/owner'])
    const owner = object('owner', { namespace: 'a' })
    expect(graph.concerns(Seat, owner)).toBe(true)
    expect(graph.concerns(Seat, object('owner', { namespace: 'c' }))).toBe(false)
    // Its deletion is checked for the dependent in its namespace only, and waits for that one only.
    expect(places(graph.remove(Seat, owner))).toEqual(['a/owner'])
    const waiting = object('owner', { namespace: 'b', ...deleting('foregroundDeletion') })
    graph.apply(Seat, waiting)
    const node = graph.node('seats.example.com/seats', 'b/owner')
    expect(node && graph.isHeld(node)).toBe(true)
    graph.remove(Seat, object('x', { namespace: 'b', uid: 'uid-of-far' }))
    expect(node && graph.isHeld(node)).toBe(false)
  })

  test('have no namespace for a cluster-scoped dependent', () => {
    const graph = new Graph(isNamespaced)
    expect(places(graph.apply(Item, object('x', references('owner'))))).toEqual(['undefined/owner'])
  })

  test('stay in their namespace when their kind is no longer served', () => {
    let isServed = true
    const graph = new Graph((group, kind) => isServed && isNamespaced(group, kind))
    const dependent = object('x', { namespace: 'a', ...references('owner') })
    graph.apply(Item, dependent)
    isServed = false
    const [reference] = dependent.metadata.ownerReferences ?? []
    const owner = reference && graph.owner(graph.keyOfReference(reference, 'a'))
    expect(owner).toMatchObject({ namespace: 'a', name: 'owner' })
    const changed = { ...dependent, metadata: { ...dependent.metadata, version: '2' } }
    expect(places(graph.apply(Item, changed))).toEqual([])
    expect(owner?.dependents.size).toBe(1)
  })

  test('are found when their kind is served later', () => {
    let isServed = false
    const graph = new Graph((group, kind) => isServed && isNamespaced(group, kind))
    const first = graph.apply(Seat, object('x', { namespace: 'a', ...references('owner') }))
    expect(places(first)).toEqual(['undefined/owner'])
    for (const owner of first.checks) graph.setStanding(owner, 'unresolved')
    isServed = true
    const found = graph.revisit(Seat)
    expect(places(found)).toEqual(['a/owner'])
    // The check sees to the dependent, which is not newer.
    for (const owner of found.checks) graph.setStanding(owner, 'absent', owner.seen)
    expect(places(graph.doubt(object('x', { namespace: 'a', ...references('owner') }).metadata))).toEqual([])
    expect(graph.size).toEqual({ nodes: 1, owners: 1 })
    expect(graph.concerns(Seat, object('owner', { namespace: 'a' }))).toBe(true)
  })
})
