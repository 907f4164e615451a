import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { systemClock } from '@setpoint/controller-runtime'
import { toRevision } from '@setpoint/controller-runtime/api'
import { Yielder } from '@setpoint/controller-runtime/internal'
import type { Entry } from '../../apiserver/dist/cache/entry.js'
import { listIndexDefaults } from '../../apiserver/dist/cache/list-indexes.js'
import { ModelStore } from '../../apiserver/dist/cache/model-store.js'
import { SortOrder } from '../../apiserver/dist/cache/sort-order.js'
import { IndexSet } from '../../apiserver/dist/model/index-set.js'
import { type ListQuery, parseListQuery, runQuery } from '../../apiserver/dist/query/index.js'
import { PageRequest, runPlans } from '../../apiserver/dist/query/plan.js'
import { compileTerms } from '../../apiserver/dist/query/terms.js'
import { FairScheduler, finish } from '../../apiserver/dist/scheduling/index.js'
import { rounds } from './items.ts'
import { Item } from './plugin/index.js'
import { median, type Row } from './table.ts'

const small = 10_000
const large = 1_000_000

/** Objects of 300 bytes, as the cache holds them. Each tag is on a thousandth of the objects. */
function entryOf(indexes: IndexSet, n: number): Entry {
  const name = `i${String(n).padStart(7, '0')}`
  const labels = { 'bench.example.com/shard': `s${n % 10}`, 'bench.example.com/odd': String(n % 2 === 1) }
  const object = {
    apiVersion: Item.apiVersion,
    kind: Item.kind,
    metadata: {
      name,
      uid: name,
      generation: 1,
      creationTimestamp: new Date(1.6e12 + n * 1000).toISOString(),
      labels,
    },
    spec: { text: '', n, tags: [`t${n % 1000}`] },
  }
  const revision = toRevision(n + 1)
  return {
    name,
    revision,
    bytes: Buffer.alloc(300),
    labels: indexes.labelsOf(object),
    values: indexes.valuesOf(object),
  }
}

interface Filled {
  readonly store: ModelStore
  readonly indexes: IndexSet
  readonly scheduler: FairScheduler
}

async function fill(count: number): Promise<Filled> {
  const indexes = new IndexSet(Item)
  const entries = Array.from({ length: count }, (_, n) => entryOf(indexes, n))
  return {
    store: await ModelStore.from(indexes, entries, new Yielder(systemClock)),
    indexes,
    scheduler: new FairScheduler(),
  }
}

/** Microseconds per call: the median of a few hundred, so that one garbage collection does not count. */
async function time(call: () => Promise<void>): Promise<number> {
  const samples: number[] = []
  for (let i = 0; i < 300; i++) {
    const begin = performance.now()
    await call()
    samples.push((performance.now() - begin) * 1000)
  }
  return median(samples)
}

async function page({ store, scheduler }: Filled, query: ListQuery): Promise<void> {
  const { items } = await runQuery(store.snapshot(), query, scheduler, { caller: 'bench' })
  if (items.length !== 20) throw new Error(`${items.length} items`)
}

const text = (...parameters: string[]) => parameters.join('&').replaceAll('==', '%3D')
const half = 'fieldSelector=spec.half==1'

/** The same page out of a hundred times as many objects, in process, and the cost of index maintenance. */
export async function queries(): Promise<Row[]> {
  const few = await fill(small)
  const many = await fill(large)
  const rows: Row[] = []
  const middleOf = (count: number) => `page=${count / 80}&size=20`
  const cases: [string, (count: number) => string][] = [
    ['no term, first page', () => text('sort=spec.n', 'page=1&size=20')],
    ['no term, last page', count => text('sort=spec.n', `page=${count / 20}&size=20`)],
    ['one equality, first page', () => text(half, 'sort=spec.n', 'page=1&size=20')],
    ['one equality, middle page', count => text(half, 'sort=spec.n', middleOf(count))],
    ['one equality, last page', count => text(half, 'sort=spec.n', `page=${count / 40}&size=20`)],
    [
      'two terms, both of every second object',
      count => text(half, 'labelSelector=bench.example.com/odd==true', 'sort=spec.n,desc', middleOf(count)),
    ],
    ['two sort keys, middle page', count => text('sort=spec.half&sort=spec.n', middleOf(count))],
    [
      // The second term matches 1,000 objects in either store.
      'two terms, the smaller of 1,000',
      count =>
        text(
          half,
          count === large ? 'fieldSelector=spec.tags==t1' : 'labelSelector=bench.example.com/shard==s1',
          'sort=spec.n',
          'page=1&size=20',
        ),
    ],
    ['default sort, first page', () => 'page=1&size=20'],
  ]
  const pairs = cases.map(([name, textOf]) => {
    const run = (filled: Filled, count: number) => {
      const parameters = new URLSearchParams(textOf(count))
      return () => page(filled, parseListQuery(parameters, filled.indexes))
    }
    return { name, inMany: run(many, large), inFew: run(few, small) }
  })
  for (const { name, inMany, inFew } of [...pairs, withoutIndex(many, few)]) {
    const ours: number[] = []
    const peer: number[] = []
    for (let round = -1; round < rounds; round++) {
      const manyMicros = await time(inMany)
      const fewMicros = await time(inFew)
      if (round < 0) continue
      ours.push(manyMicros)
      peer.push(fewMicros)
    }
    rows.push({
      name: `page of 20 out of 1,000,000 compared with 10,000: ${name}`,
      unit: 'µs',
      ours,
      peer,
      aim: { atMost: 2 },
    })
  }
  rows.push(...(await firstPages(many)))
  rows.push(await updates('update of the indexed fields of one of 100,000 objects', []))
  rows.push(
    await updates(
      `the same, kept in ${listIndexDefaults.indexes} list indexes as well`,
      sortsOf(many.indexes).slice(0, listIndexDefaults.indexes),
    ),
  )
  return rows
}

/** Two terms whose page is collected and sorted each time, as for a list that is requested once. */
function withoutIndex(many: Filled, few: Filled) {
  const run = ({ store, indexes }: Filled, second: string) => {
    const { selector, sort } = parseListQuery(
      new URLSearchParams(text(half, second, 'sort=spec.n', 'page=1&size=20')),
      indexes,
    )
    const snapshot = store.snapshot()
    return async () => {
      const terms = finish(compileTerms(snapshot, selector))
      const window = { offset: 0, count: 20 }
      const plans = new PageRequest(snapshot, terms, new SortOrder(sort), () => window).plans()
      if (finish(runPlans(plans)).slots.length !== 20) throw new Error('not a page')
    }
  }
  return {
    name: 'two terms, the smaller of 1,000, as for who asks once',
    inMany: run(many, 'fieldSelector=spec.tags==t1'),
    inFew: run(few, 'labelSelector=bench.example.com/shard==s1'),
  }
}

/** Lists that need an index of their own: half of the objects, in several sort orders. */
function sortsOf(indexes: IndexSet): string[] {
  return indexes.names.flatMap(field => ['asc', 'desc'].map(direction => `sort=${field},${direction}`))
}

/**
 * A middle page that first builds an index: its cost, the longest wait of other requests meanwhile, and the memory
 * kept. Measured in processor time of the process, garbage collection included, so that other processes do not count.
 */
async function firstPages(many: Filled): Promise<Row[]> {
  const took: number[] = []
  const held: number[] = []
  const bytes: number[] = []
  const sorts = sortsOf(many.indexes).filter(sort => !/spec.n|spec.half|metadata.name/.test(sort))
  for (const sort of sorts.slice(0, rounds)) {
    const query = parseListQuery(new URLSearchParams(text(half, sort, 'page=12500&size=20')), many.indexes)
    collectGarbage()
    const before = process.memoryUsage().heapUsed
    let asking = true
    let longest = 0
    const watching = (async () => {
      while (asking) {
        const begin = process.cpuUsage()
        await new Promise(setImmediate)
        const { user, system } = process.cpuUsage(begin)
        longest = Math.max(longest, (user + system) / 1000)
      }
    })()
    const begin = process.cpuUsage()
    await page(many, query)
    const { user, system } = process.cpuUsage(begin)
    took.push((user + system) / 1000)
    asking = false
    await watching
    held.push(longest)
    collectGarbage()
    bytes.push((process.memoryUsage().heapUsed - before) / (large / 2))
  }
  const beside = (value: number) => took.map(() => value)
  return [
    {
      name: 'first middle page of 500,000 of 1,000,000 by another index, which is made then, processor time compared with 1 s',
      unit: 'ms',
      ours: took,
      peer: beside(1000),
    },
    {
      name: 'the longest turn of the event loop meanwhile, processor time compared with 50 ms',
      unit: 'ms',
      ours: held,
      peer: beside(50),
      aim: { atMost: 1 },
    },
    {
      name: 'memory of that index for each object in it, compared with 32 bytes',
      unit: 'bytes',
      ours: bytes,
      peer: beside(32),
      aim: { atMost: 1 },
    },
  ]
}

async function updates(name: string, sorts: readonly string[]): Promise<Row> {
  const filled = await fill(100_000)
  const { store, indexes } = filled
  for (const sort of sorts) {
    const parameters = new URLSearchParams(text('fieldSelector=spec.half==1', sort, 'page=1250&size=20'))
    await page(filled, parseListQuery(parameters, indexes))
  }
  const ours: number[] = []
  for (let round = -1; round < rounds; round++) {
    const samples: number[] = []
    for (let i = 0; i < 2000; i++) {
      const n = (i * 7919) % 100_000
      const name = `i${String(n).padStart(7, '0')}`
      const previous = store.get(name)
      const next = { ...entryOf(indexes, (n + i * 31) % 100_000), name }
      const values = [...next.values]
      values[0] = [name]
      const begin = performance.now()
      // A snapshot before each, as when every update is followed by a list: the worst case for copying on write.
      store.snapshot()
      store.apply({ ...next, values }, previous)
      samples.push((performance.now() - begin) * 1000)
    }
    if (round >= 0) ours.push(median(samples))
  }
  return {
    name: `${name}, compared with 50 µs`,
    unit: 'µs',
    ours,
    peer: ours.map(() => 50),
    aim: { atMost: 1 },
  }
}

function collectGarbage(): void {
  setFlagsFromString('--expose-gc')
  const collect: unknown = runInNewContext('gc')
  if (typeof collect === 'function') collect()
}
