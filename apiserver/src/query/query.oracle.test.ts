import { type ApiObject, toRevision } from '@setpoint/controller-runtime/api'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  byCodePoint,
  Gadget,
  indexes,
  inOrder,
  parametersOf,
  type Query,
  type Step,
  satisfies,
  spell,
  step,
  timestamp,
} from '../../../test/support/query-oracle.ts'
import type { Entry } from '../cache/entry.ts'
import { FairScheduler } from '../cache/fair-scheduler.ts'
import type { ModelSnapshot } from '../cache/model-snapshot.ts'
import { ModelStore } from '../cache/model-store.ts'
import { SortOrder } from '../cache/sort-order.ts'
import { finish } from '../cache/work.ts'
import { pageByIndex, runQuery } from './execute.ts'
import { type ListQuery, parseListQuery } from './list-query.ts'
import { matchesEntry } from './match.ts'
import { pageWindow } from './page.ts'
import { PageRequest } from './plan.ts'
import { compileTerms } from './terms.ts'

function entryOf(gadget: Gadget, revision: number): Entry {
  const object: ApiObject = {
    apiVersion: Gadget.apiVersion,
    kind: Gadget.kind,
    metadata: {
      name: gadget.name,
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
  readonly names: readonly string[]
  /** All matching objects, ascending. */
  readonly byName: readonly string[]
}

function expectedOf(gadgets: readonly Gadget[], query: Query): Expected {
  const matching = gadgets.filter(gadget => query.terms.every(term => satisfies(gadget, spell(term).term)))
  const all = inOrder(matching, query.sort).map(({ name }) => name)
  const { page = 1, size } = query
  const names = size === undefined ? (page === 1 ? all : []) : all.slice((page - 1) * size, page * size)
  return { total: all.length, names, byName: [...all].sort(byCodePoint) }
}

const namesOf = (things: readonly { readonly name: string }[] | undefined) => things?.map(({ name }) => name)

/** Every plan must return the oracle's result, not only the plan that looks cheapest. */
async function check(
  snapshot: ModelSnapshot,
  query: Query,
  { byName, ...expected }: Expected,
  used: Set<string>,
): Promise<void> {
  const parsed = parseListQuery(parametersOf(query), indexes)
  const answer = await runQuery(snapshot, parsed, scheduler, ann)
  expect(answer.kind === 'page' && answer.total).toBe(expected.total)
  expect(namesOf(answer.items)).toEqual(expected.names)
  const { paging } = parsed
  if (paging.kind === 'page') {
    const terms = finish(compileTerms(snapshot, parsed.selector))
    const order = new SortOrder(parsed.sort)
    const request = new PageRequest(snapshot, terms, order, total => pageWindow(paging, total))
    for (const { name, run } of request.plans()) {
      used.add(name)
      const found = finish(run(Infinity))
      expect({ name, total: found?.total, names: namesOf(found?.slots) }).toEqual({ name, ...expected })
    }
  }
  await checkChunks(snapshot, query, byName)
  const selected: string[] = []
  snapshot.objects.forEachValue(entry => {
    if (matchesEntry(entry, parsed.selector, indexes)) selected.push(entry.name)
  })
  expect(selected).toEqual(byName)
}

/** The same from an index that is built for the list over many turns of the event loop. */
async function checkIndex(
  snapshot: ModelSnapshot,
  query: Query,
  { byName, ...expected }: Expected,
): Promise<void> {
  const parsed = parseListQuery(parametersOf(query), indexes)
  const { paging } = parsed
  if (paging.kind !== 'page') return
  let found = await pageByIndex(snapshot, { ...parsed, paging }, 1, shortScheduler, ann)
  // Other indexes are being built.
  while (found === undefined) {
    await new Promise(setImmediate)
    found = await pageByIndex(snapshot, { ...parsed, paging }, 1, shortScheduler, ann)
  }
  expect({ total: found.total, names: namesOf(found.items) }).toEqual(expected)
}

async function checkChunks(
  snapshot: ModelSnapshot,
  query: Query,
  expected: readonly string[],
): Promise<void> {
  const { selector } = parseListQuery(
    parametersOf({ ...query, sort: [], page: undefined, size: undefined }),
    indexes,
  )
  const names: string[] = []
  let after: string | undefined
  do {
    const chunk: ListQuery & { paging: { kind: 'chunk' } } = {
      selector,
      sort: [],
      paging: { kind: 'chunk', limit: query.limit, after },
      at: { kind: 'latest' },
    }
    const { items, next, remaining } = await runQuery(snapshot, chunk, scheduler, ann)
    for (const { name } of items) names.push(name)
    const left = expected.length - names.length
    expect(next !== undefined).toBe(left > 0)
    expect(remaining).toBe(query.terms.length === 0 && left > 0 ? left : undefined)
    after = next
  } while (after !== undefined)
  expect(names).toEqual(expected)
}

async function run(steps: readonly Step[], used: Set<string>): Promise<void> {
  const store = new ModelStore(indexes)
  const state = new Map<string, Gadget>()
  const kept: { snapshot: ModelSnapshot; query: Query; expected: Expected }[] = []
  const byIndex: Promise<void>[] = []
  let revision = 0
  for (const { put, remove, query } of steps) {
    for (const gadget of put) {
      store.apply(entryOf(gadget, ++revision), store.get(gadget.name))
      state.set(gadget.name, gadget)
    }
    for (const name of remove) {
      store.apply(undefined, store.get(name))
      state.delete(name)
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
      { numRuns: 1500 },
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
      { numRuns: 25, endOnFailure: true },
    )
  })

  test('is computed by every plan in the cases above', () => {
    expect([...used].sort()).toEqual(['exclude', 'gather', 'groups', 'ranks', 'scan', 'walk'])
  })
})
