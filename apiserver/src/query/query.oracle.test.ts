import { isDeepStrictEqual } from 'node:util'
import { systemClock } from '@setpoint/controller-runtime'
import { type ApiObject, objectKey, toRevision } from '@setpoint/controller-runtime/api'
import { Yielder } from '@setpoint/controller-runtime/internal'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  byKey,
  Gadget,
  indexes,
  inOrder,
  namespacedIndexes,
  namespacedStep,
  parametersOf,
  type Query,
  type Step,
  satisfies,
  spell,
  step,
  timestamp,
} from '../../../test/support/query-oracle.ts'
import { runsOf } from '../../../test/support/runs.ts'
import { type Entry, keyOfEntry } from '../cache/entry.ts'
import type { ModelSnapshot } from '../cache/model-snapshot.ts'
import { ModelStore } from '../cache/model-store.ts'
import { SortOrder } from '../cache/sort-order.ts'
import type { IndexSet } from '../model/index-set.ts'
import { FairScheduler, finish } from '../scheduling/index.ts'
import { pageByIndex, runQuery } from './execute.ts'
import { inNamespace, type ListQuery, parseListQuery } from './list-query.ts'
import { matchesEntry } from './match.ts'
import { pageWindow } from './page.ts'
import { PageRequest } from './plan.ts'
import { isOneNamespace } from './selected-by-name.ts'
import { compileTerms } from './terms.ts'

function entryOf(gadget: Gadget, revision: number, indexes: IndexSet): Entry {
  const { namespace } = gadget
  const object: ApiObject = {
    apiVersion: Gadget.apiVersion,
    kind: Gadget.kind,
    metadata: {
      name: gadget.name,
      ...(namespace !== undefined && { namespace }),
      uid: '',
      version: '',
      resourceVersion: '',
      generation: 1,
      creationTimestamp: timestamp(gadget.created),
      labels: gadget.labels,
      ...(gadget.deleted ? { deletionTimestamp: timestamp(0) } : {}),
    },
    spec: { owner: gadget.owner, n: gadget.n, tags: gadget.tags },
  }
  return {
    name: gadget.name,
    ...(namespace !== undefined && { namespace }),
    revision: toRevision(revision),
    bytes: Buffer.alloc(0),
    labels: indexes.labelsOf(object),
    values: indexes.valuesOf(object),
  }
}

const ann = { caller: 'ann' }
const scheduler = new FairScheduler()
/** Yields to the event loop after each step of any work. */
const shortScheduler = new FairScheduler(1)

interface Expected {
  readonly total: number
  /** The keys of the page. */
  readonly keys: readonly string[]
  /** Those of all matching objects, ascending. */
  readonly byKey: readonly string[]
}

function expectedOf(gadgets: readonly Gadget[], query: Query): Expected {
  const matching = gadgets.filter(
    gadget =>
      (query.namespace === undefined || gadget.namespace === query.namespace) &&
      query.terms.every(term => satisfies(gadget, spell(term).term)),
  )
  const all = inOrder(matching, query.sort).map(objectKey)
  const { page = 1, size } = query
  const keys = size === undefined ? (page === 1 ? all : []) : all.slice((page - 1) * size, page * size)
  return { total: all.length, keys, byKey: byKey(matching).map(objectKey) }
}

/** As `expect(actual).toEqual(expected)`, which would take a third of the time of these tests. */
function expectEqual(actual: unknown, expected: unknown): void {
  if (!isDeepStrictEqual(actual, expected)) expect(actual).toEqual(expected)
}

const keysOf = (entries: readonly Entry[] | undefined) => entries?.map(keyOfEntry)

function parse(query: Query, indexes: IndexSet): ListQuery {
  const parsed = parseListQuery(parametersOf(query), indexes)
  return query.namespace === undefined ? parsed : inNamespace(parsed, query.namespace)
}

/** Every plan must return the oracle's result, not only the plan that looks cheapest. */
async function check(
  snapshot: ModelSnapshot,
  query: Query,
  { byKey, ...expected }: Expected,
  used: Set<string>,
): Promise<void> {
  const { indexes } = snapshot
  const parsed = parse(query, indexes)
  const answer = await runQuery(snapshot, parsed, scheduler, ann)
  expectEqual(answer.kind === 'page' && answer.total, expected.total)
  expectEqual(keysOf(answer.items), expected.keys)
  const { paging } = parsed
  if (paging.kind === 'page') {
    const terms = finish(compileTerms(snapshot, parsed.selector))
    const order = new SortOrder(parsed.sort)
    const request = new PageRequest(snapshot, terms, order, total => pageWindow(paging, total))
    for (const { name, run } of request.plans()) {
      used.add(name)
      const found = finish(run(Infinity))
      const keys = found?.slots.map(({ entry }) => keyOfEntry(entry))
      expectEqual({ name, total: found?.total, keys }, { name, ...expected })
    }
  }
  await checkChunks(snapshot, query, byKey)
  const selected: string[] = []
  snapshot.objects.forEachValue(entry => {
    if (matchesEntry(entry, parsed.selector, indexes)) selected.push(keyOfEntry(entry))
  })
  expectEqual(selected, byKey)
}

/** The same from an index that is built for the list over many turns of the event loop. */
async function checkIndex(
  snapshot: ModelSnapshot,
  query: Query,
  { byKey: _, ...expected }: Expected,
): Promise<void> {
  const parsed = parse(query, snapshot.indexes)
  const { paging } = parsed
  if (paging.kind !== 'page') return
  let found = await pageByIndex(snapshot, { ...parsed, paging }, 1, shortScheduler, ann)
  // Other indexes are being built.
  while (found === undefined) {
    await new Promise(setImmediate)
    found = await pageByIndex(snapshot, { ...parsed, paging }, 1, shortScheduler, ann)
  }
  expectEqual({ total: found.total, keys: keysOf(found.items) }, expected)
}

async function checkChunks(
  snapshot: ModelSnapshot,
  query: Query,
  expected: readonly string[],
): Promise<void> {
  const { selector } = parse({ ...query, sort: [], page: undefined, size: undefined }, snapshot.indexes)
  const [first, ...more] = [...selector.labels, ...selector.fields]
  const isCounted = more.length === 0 && (first === undefined || isOneNamespace(first))
  const keys: string[] = []
  let after: string | undefined
  do {
    const chunk: ListQuery & { paging: { kind: 'chunk' } } = {
      selector,
      sort: [],
      paging: { kind: 'chunk', limit: query.limit, after },
      at: { kind: 'latest' },
    }
    const { items, next, remaining } = await runQuery(snapshot, chunk, scheduler, ann)
    keys.push(...items.map(keyOfEntry))
    const left = expected.length - keys.length
    expectEqual(next !== undefined, left > 0)
    expectEqual(remaining, isCounted && left > 0 ? left : undefined)
    after = next
  } while (after !== undefined)
  expectEqual(keys, expected)
}

async function run(steps: readonly Step[], used: Set<string>, of: IndexSet = indexes): Promise<void> {
  const store = new ModelStore(of)
  const state = new Map<string, Gadget>()
  const kept: { snapshot: ModelSnapshot; query: Query; expected: Expected }[] = []
  const byIndex: Promise<void>[] = []
  let revision = 0
  for (const { put, remove, query } of steps) {
    for (const gadget of put) {
      const key = objectKey(gadget)
      store.apply(entryOf(gadget, ++revision, of), store.get(key))
      state.set(key, gadget)
    }
    for (const key of remove) {
      store.apply(undefined, store.get(key))
      state.delete(key)
    }
    const snapshot = store.snapshot()
    const gadgets = [...state.values()]
    const expected = expectedOf(gadgets, query)
    await check(snapshot, query, expected, used)
    // The first query's index is kept up to date.
    byIndex.push(checkIndex(snapshot, query, expected))
    const [first] = kept
    if (first !== undefined) {
      byIndex.push(checkIndex(snapshot, first.query, expectedOf(gadgets, first.query)))
    }
    kept.push({ snapshot, query, expected })
    // The next writes arrive while an index is being built, or after it.
    if (kept.length % 2 === 0) await Promise.all(byIndex)
    else await new Promise(setImmediate)
  }
  await Promise.all(byIndex)
  for (const { snapshot, query, expected } of kept) {
    await check(snapshot, query, expected, used)
    await checkIndex(snapshot, query, expected)
  }
}

describe('a list', () => {
  const used = new Set<string>()
  /** For a machine that is ten times slower and busy. */
  const timeout = 300_000

  test('of few objects equals filtering and sorting them, with every plan, also from an old snapshot', {
    timeout,
  }, async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step(12, 6), { minLength: 1, maxLength: 8 }), steps => run(steps, used)),
      { numRuns: runsOf(750) },
    )
  })

  test('of many objects equals filtering and sorting them, with every plan, also from an old snapshot', {
    timeout,
  }, async () => {
    await fc.assert(
      fc.asyncProperty(
        step(600, 500),
        fc.array(step(600, 20), { minLength: 5, maxLength: 20 }),
        (first, steps) => run([first, ...steps], used),
      ),
      // Shrinking so many objects would take minutes; the seed identifies the case.
      { numRuns: runsOf(25), endOnFailure: true },
    )
  })

  test('in namespaces equals filtering and sorting the objects, with every plan, also from an old snapshot', {
    timeout,
  }, async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(namespacedStep(6, 8), { minLength: 1, maxLength: 6 }), steps =>
        run(steps, used, namespacedIndexes),
      ),
      { numRuns: runsOf(500) },
    )
    await fc.assert(
      fc.asyncProperty(
        namespacedStep(200, 400),
        fc.array(namespacedStep(200, 20), { minLength: 3, maxLength: 8 }),
        (first, steps) => run([first, ...steps], used, namespacedIndexes),
      ),
      { numRuns: runsOf(10), endOnFailure: true },
    )
  })

  test.each([
    ['a range of names', { key: 'metadata.name', operator: '>=', values: ['g295'] }, 'a'],
    [
      'several values of which an object may have more than one',
      { key: 'spec.tags', operator: 'in', values: ['x', 'y'] },
      undefined,
    ],
  ] as const)(
    'in chunks, with %s, has each object once',
    async (_what, { key, operator, values }, namespace) => {
      const put = Array.from({ length: 200 }, (_, at) => ({
        name: `g${100 + at}`,
        namespace: at % 10 === 7 ? 'b' : 'a',
        created: 0,
        deleted: false,
        labels: {},
        owner: undefined,
        n: undefined,
        tags: at % 50 === 0 ? ['x', 'y'] : [],
      }))
      const terms = [{ dialect: 'field' as const, key, operator, values: [...values] }]
      const paging = { sort: [], page: undefined, size: undefined, limit: 2 }
      await run(
        [{ put, remove: [], query: { namespace, terms, repeated: false, ...paging } }],
        used,
        namespacedIndexes,
      )
    },
  )

  test('of a store that was filled at once equals one of a store that was written to', async () => {
    await fc.assert(
      fc.asyncProperty(namespacedStep(6, 12), async ({ put, query }) => {
        const state = new Map(put.map(gadget => [objectKey(gadget), gadget]))
        const gadgets = byKey([...state.values()])
        const entries = gadgets.map((gadget, at) => entryOf(gadget, at + 1, namespacedIndexes))
        const store = await ModelStore.from(namespacedIndexes, entries, new Yielder(systemClock))
        await check(store.snapshot(), query, expectedOf(gadgets, query), used)
      }),
    )
  })

  test('is computed by every plan in the cases above', () => {
    expect([...used].sort()).toEqual(['gather', 'ranks', 'scan', 'walk'])
  })
})
