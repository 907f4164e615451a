import { toRevision } from '@setpoint/controller-runtime/api'
import type { Entry } from '../../apiserver/dist/cache/entry.js'
import { IndexSet } from '../../apiserver/dist/cache/index-set.js'
import { ModelStore } from '../../apiserver/dist/cache/model-store.js'
import { parseListQuery, runQuery } from '../../apiserver/dist/query/index.js'
import { rounds } from './items.ts'
import { Item } from './plugin/index.js'
import { median, type Row } from './table.ts'

const small = 10_000
const large = 1_000_000

/** Objects of 300 bytes, as the cache holds them. Of the tags, each is on a thousandth of the objects. */
function entryOf(indexes: IndexSet, n: number): Entry {
  const name = `i${String(n).padStart(7, '0')}`
  const labels = { 'bench.example.com/shard': `s${n % 10}` }
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

function fill(count: number): { store: ModelStore; indexes: IndexSet } {
  const indexes = new IndexSet(Item)
  const store = new ModelStore(indexes)
  for (let n = 0; n < count; n++) store.apply(entryOf(indexes, n), undefined)
  return { store, indexes }
}

/** Microseconds of one call: the median of a few hundred, so that a collection of garbage in one of them does not count. */
function time(call: () => void): number {
  const samples: number[] = []
  for (let i = 0; i < 300; i++) {
    const begin = performance.now()
    call()
    samples.push((performance.now() - begin) * 1000)
  }
  return median(samples)
}

/** The same page out of a hundred times as many objects, in process; and the cost of keeping indexes. */
export async function queries(): Promise<Row[]> {
  const few = fill(small)
  const many = fill(large)
  const rows: Row[] = []
  // The second term matches 1,000 objects in either store.
  const cases: [string, (count: number) => string][] = [
    ['no term, first page', () => 'sort=spec.n&page=1&size=20'],
    ['no term, last page', count => `sort=spec.n&page=${count / 20}&size=20`],
    ['one equality, first page', () => 'fieldSelector=spec.half%3D1&sort=spec.n&page=1&size=20'],
    [
      'one equality, last page',
      count => `fieldSelector=spec.half%3D1&sort=spec.n&page=${count / 40}&size=20`,
    ],
    [
      'two terms, the smaller of 1,000',
      count =>
        `fieldSelector=spec.half%3D1${count === large ? '&fieldSelector=spec.tags%3Dt1' : '&labelSelector=bench.example.com/shard%3Ds1'}&sort=spec.n&page=1&size=20`,
    ],
    ['default sort, first page', () => 'page=1&size=20'],
  ]
  for (const [name, textOf] of cases) {
    const run = ({ store, indexes }: typeof few, count: number) => {
      const parameters = new URLSearchParams(textOf(count))
      return () => {
        const { items } = runQuery(store.snapshot(), parseListQuery(parameters, indexes))
        if (items.length !== 20) throw new Error(`${name}: ${items.length} items`)
      }
    }
    const inMany = run(many, large)
    const inFew = run(few, small)
    const ours: number[] = []
    const peer: number[] = []
    for (let round = -1; round < rounds; round++) {
      const manyMicros = time(inMany)
      const fewMicros = time(inFew)
      if (round < 0) continue
      ours.push(manyMicros)
      peer.push(fewMicros)
    }
    rows.push({
      name: `page of 20 out of 1,000,000 beside out of 10,000: ${name}`,
      unit: 'µs',
      ours,
      peer,
      aim: { atMost: 2 },
    })
  }
  rows.push(updates())
  return rows
}

function updates(): Row {
  const { store, indexes } = fill(100_000)
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
    name: 'update of the indexed fields of one of 100,000 objects, beside 50 µs',
    unit: 'µs',
    ours,
    peer: ours.map(() => 50),
    aim: { atMost: 1 },
  }
}
