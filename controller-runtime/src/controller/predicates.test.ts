import { afterEach, describe, expect, test } from 'vitest'
import { type Harness, settle, startHarness } from '../../../test/support/sdk/controller-harness.ts'
import { eventually } from '../../../test/support/sdk/eventually.ts'
import { Gadget, gadget } from '../../../test/support/sdk/sample-models.ts'
import type { ApiObject } from '../api/object.ts'
import { SelectorError } from '../api/selector.ts'
import {
  and,
  annotationsChanged,
  anyChange,
  type Filter,
  generationChanged,
  labelsChanged,
  matching,
  matchingLabels,
  not,
  or,
  toPredicate,
} from './predicates.ts'

const harnesses: Harness[] = []
afterEach(async () => {
  for (const harness of harnesses.splice(0)) await harness.stop()
})

/** An object with these labels and other metadata. */
function object(labels?: Record<string, string>, extra: Partial<ApiObject['metadata']> = {}): ApiObject {
  const { metadata, ...rest } = gadget('a', 1)
  return { ...rest, metadata: { ...metadata, ...(labels && { labels }), ...extra } }
}

/** The results of a filter for an addition, an update and a deletion; undefined if it has no method. */
function opinions(filter: Filter, before: ApiObject, after: ApiObject) {
  const predicate = toPredicate(filter)
  return [predicate.add?.(after), predicate.update?.(before, after), predicate.delete?.(after)]
}

const yes = { add: () => true, update: () => true, delete: () => true }
const no = { add: () => false, update: () => false, delete: () => false }

describe('predicates', () => {
  test('labelsChanged and annotationsChanged compare all keys or the given ones', () => {
    const before = object({ a: '1', b: '1' }, { annotations: { x: '1' } })
    const after = object({ a: '1', b: '2' }, { annotations: { x: '1', y: '1' } })
    expect(labelsChanged()(before, after)).toBe(true)
    expect(labelsChanged('a')(before, after)).toBe(false)
    expect(labelsChanged('a', 'b')(before, after)).toBe(true)
    expect(labelsChanged()(before, before)).toBe(false)
    expect(annotationsChanged()(before, after)).toBe(true)
    expect(annotationsChanged('x')(before, after)).toBe(false)
    expect(annotationsChanged('y')(before, after)).toBe(true)
    expect(annotationsChanged()(object(), object())).toBe(false)
  })

  test('generationChanged compares the generation', () => {
    expect(generationChanged(object(), object(undefined, { generation: 2 }))).toBe(true)
    expect(generationChanged(object(), object({ a: '1' }))).toBe(false)
  })

  test('generationChanged compares the content of a built-in kind, which has no generation', () => {
    const [first, ...others] = [
      object(),
      object({ a: '1' }),
      { ...object(), status: { phase: 'x' } },
      { ...object(), spec: { size: 9 } },
      object(undefined, { deletionTimestamp: '2026-01-31T10:00:00.000Z' }),
    ].map(({ metadata: { generation: _generation, ...metadata }, ...content }) => ({ ...content, metadata }))
    if (first === undefined) throw new Error('there is no object')
    expect(others.map(other => generationChanged(first, other))).toEqual([false, false, true, true])
  })

  test('matchingLabels notices objects that start or stop matching', () => {
    const filter = matchingLabels('tier in (front, back), !off')
    const [matches, other, off] = [object({ tier: 'front' }), object(), object({ tier: 'front', off: '' })]
    expect(opinions(filter, matches, matches)).toEqual([true, true, true])
    expect(opinions(filter, other, other)).toEqual([false, false, false])
    expect(opinions(filter, matches, other)).toEqual([false, true, false])
    expect(opinions(filter, off, matches)).toEqual([true, true, true])
    expect(opinions(filter, off, object({ toString: 'x' }))).toEqual([false, false, false])
    expect(() => matchingLabels('a in (')).toThrow(SelectorError)
  })
})

describe('composition', () => {
  const a = object()

  test('and requires all, or requires one, not inverts', () => {
    expect(opinions(and(yes, no), a, a)).toEqual([false, false, false])
    expect(opinions(and(yes, yes), a, a)).toEqual([true, true, true])
    expect(opinions(or(yes, no), a, a)).toEqual([true, true, true])
    expect(opinions(or(no, no), a, a)).toEqual([false, false, false])
    expect(opinions(not(yes), a, a)).toEqual([false, false, false])
    expect(opinions(not(and(yes, not(no))), a, a)).toEqual([false, false, false])
  })

  test('missing methods are ignored; if all are missing, the event passes', () => {
    expect(opinions(and(no, anyChange), a, a)).toEqual([false, false, false])
    expect(opinions(or(no, anyChange), a, a)).toEqual([false, true, false])
    expect(opinions(not(anyChange), a, a)).toEqual([undefined, false, undefined])
    expect(opinions(or(generationChanged, labelsChanged()), a, object({ x: '1' }))).toEqual([
      undefined,
      true,
      undefined,
    ])
  })

  test('methods keep their `this`', () => {
    class Named {
      readonly name = 'a'
      add({ metadata }: ApiObject) {
        return metadata.name === this.name
      }
    }
    expect(opinions(and(new Named(), yes), a, a)).toEqual([true, true, true])
  })
})

describe('in a controller', () => {
  /** The names of runs; `finalizer` adds a finalizer to the controller. */
  async function setUp(filter: Filter, finalizer?: string) {
    const runs: string[] = []
    const harness = startHarness(Gadget, c => {
      c.filter(filter).reconcile(async ({ metadata }) => void runs.push(`reconcile ${metadata.name}`))
      if (finalizer)
        c.finalize(finalizer, async ({ metadata }) => void runs.push(`finalize ${metadata.name}`))
    })
    harnesses.push(harness)
    return { ...harness, runs }
  }

  test('additions that do not pass trigger no run until an update passes', async () => {
    const { client, runs } = await setUp(matchingLabels('tier=front'))
    await client.create(Gadget, { metadata: { name: 'a' }, spec: { size: 1 } })
    await client.create(Gadget, { metadata: { name: 'b', labels: { tier: 'front' } }, spec: { size: 1 } })
    await eventually(() => runs.length === 1)
    await settle()
    expect(runs).toEqual(['reconcile b'])
    await client.patch(Gadget, 'a', { metadata: { labels: { tier: 'front' } } })
    await eventually(() => runs.length === 2)
    expect(runs[1]).toBe('reconcile a')
  })

  test('generationChanged passes the start of a deletion, and ignores a change of labels', async () => {
    const { client, runs } = await setUp(generationChanged)
    await client.create(Gadget, {
      metadata: { name: 'a', finalizers: ['x.example.com/x'] },
      spec: { size: 1 },
    })
    await eventually(() => runs.length === 1)
    await client.patch(Gadget, 'a', { metadata: { labels: { tier: 'front' } } })
    await settle()
    expect(runs).toHaveLength(1)
    await client.delete(Gadget, 'a')
    await eventually(() => runs.length === 2)
  })

  test('no filter prevents finalize, neither at the start nor later', async () => {
    const finalizer = 'demo.example.com/cleanup'
    const { client, server, manager } = await setUp(no, finalizer)
    await client.create(Gadget, { metadata: { name: 'a', finalizers: [finalizer] }, spec: { size: 1 } })
    await client.delete(Gadget, 'a')
    await eventually(() => server.peek('gadgets', 'a') === undefined)
    await manager.stop()
    await client.create(Gadget, { metadata: { name: 'b', finalizers: [finalizer] }, spec: { size: 1 } })
    await client.delete(Gadget, 'b')
    const next = startHarness(Gadget, c => c.filter(no).finalize(finalizer, async () => {}), { server })
    harnesses.push(next)
    await eventually(() => server.peek('gadgets', 'b') === undefined)
  })

  test('if a filter throws, the event passes', async () => {
    const { client, runs } = await setUp(
      matching(() => {
        throw new Error('no filter')
      }),
    )
    await client.create(Gadget, { metadata: { name: 'a' }, spec: { size: 1 } })
    await eventually(() => runs.length === 1)
    await client.patch(Gadget, 'a', { spec: { size: 2 } })
    await eventually(() => runs.length === 2)
  })
})
