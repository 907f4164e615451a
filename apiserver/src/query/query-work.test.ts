import { setMaxListeners } from 'node:events'
import { systemClock } from '@setpoint/controller-runtime'
import { toRevision } from '@setpoint/controller-runtime/api'
import { Yielder } from '@setpoint/controller-runtime/internal'
import { beforeAll, describe, expect, test } from 'vitest'
import { indexes, namespacedIndexes, timestamp } from '../../../test/support/query-oracle.ts'
import { type Entry, keyOfEntry } from '../cache/entry.ts'
import { listIndexDefaults } from '../cache/list-indexes.ts'
import { ModelStore } from '../cache/model-store.ts'
import {
  FairScheduler,
  fairSchedulerDefaults,
  type Work,
  type WorkOwner,
  workDefaults,
  workTurnsDefaults,
} from '../scheduling/index.ts'
import { runQuery } from './execute.ts'
import { parseListQuery } from './list-query.ts'

/** The cost of a list in entries read. No clock is involved, so it is the same on every machine. */

const count = 60_000
/** Number of index values read, of all objects. */
let reads = 0

/** An object that counts the reads of its index values. Half have one owner, and half of those one label. */
function entryOf(n: number, rank = (n * 7919) % count): Entry {
  const name = `g${String(n).padStart(6, '0')}`
  const object = {
    apiVersion: '',
    kind: '',
    metadata: {
      name,
      uid: '',
      generation: 1,
      creationTimestamp: timestamp(n),
      labels: { app: n % 4 < 2 ? 'web' : 'db' },
    },
    spec: { owner: `o${n % 2}`, n: String(rank).padStart(6, '0'), tags: [`t${n % 3}`, `t${n % 7}`] },
  }
  const values = indexes.valuesOf(object)
  return {
    name,
    revision: toRevision(n + 1),
    bytes: Buffer.alloc(0),
    labels: indexes.labelsOf(object),
    get values() {
      reads++
      return values
    },
  }
}

/** Counts the steps of the work in total, per step, and between two turns of the event loop. */
class CountingScheduler extends FairScheduler {
  handled = 0
  largestStep = 0
  largestReads = 0
  mostInTurn = 0
  #inTurn = 0
  #resetting = false

  override run<T>(work: Work<T>, held: number, owner: WorkOwner): Promise<T> {
    return super.run(this.#counted(work), held, owner)
  }

  *#counted<T>(work: Work<T>): Work<T> {
    for (;;) {
      const before = reads
      const { done, value } = work.next()
      this.largestReads = Math.max(this.largestReads, reads - before)
      if (done) return value
      this.handled += value
      this.largestStep = Math.max(this.largestStep, value)
      this.#inTurn += value
      this.mostInTurn = Math.max(this.mostInTurn, this.#inTurn)
      if (!this.#resetting) {
        this.#resetting = true
        setImmediate(() => {
          this.#resetting = false
          this.#inTurn = 0
        })
      }
      yield value
    }
  }
}

const query = (text: string) => parseListQuery(new URLSearchParams(text), indexes)

const ann: WorkOwner = { caller: 'ann' }

async function ask(store: ModelStore, scheduler: FairScheduler, text: string, owner = ann) {
  const answer = await runQuery(store.snapshot(), query(text), scheduler, owner)
  if (answer.kind !== 'page') throw new Error('no page')
  return { total: answer.total, names: answer.items.map(({ name }) => name) }
}

/** A thousand of the values of `spec.n`. */
function few(at: number): string {
  return Array.from({ length: 1000 }, (_, i) => String(at * 1000 + i).padStart(6, '0')).join(',')
}

let store: ModelStore

async function freshStore(): Promise<ModelStore> {
  const entries = Array.from({ length: count }, (_, n) => entryOf(n))
  return ModelStore.from(indexes, entries, new Yielder(systemClock))
}

beforeAll(async () => {
  store = await freshStore()
}, 300_000)

const middle = 'page=700&size=20'
const sorts = [
  'sort=spec.n',
  'sort=spec.n,asc',
  'sort=metadata.creationTimestamp',
  'sort=metadata.name,desc',
  'sort=spec.tags,desc',
  'sort=spec.tags&sort=spec.n',
]
/** One search of an index for each object of the page, and one more. */
const little = 21 * Math.log2(count)

describe('a page of 20', { timeout: 300_000 }, () => {
  test.each([
    'fieldSelector=spec.owner%3Do1',
    'fieldSelector=spec.owner!%3Do1',
    'labelSelector=app!%3Dweb',
    'fieldSelector=spec.owner%3Do1&labelSelector=app%3Dweb',
    'fieldSelector=spec.owner!%3Do1&labelSelector=app!%3Dweb',
    'fieldSelector=spec.tags%20in%20(t0,t1,t2)',
    'fieldSelector=spec.n<045000',
    'fieldSelector=spec.tags>t1',
    'fieldSelector=spec.tags>t1,spec.tags<t3',
    '',
  ])(
    'in the middle, selected by "%s", costs no more than the page after the first request',
    async selector => {
      for (const sort of sorts) {
        const first = await ask(store, new FairScheduler(), `${selector}&${sort}&${middle}`)
        for (const page of [1, 300, 700, 701]) {
          const scheduler = new CountingScheduler()
          reads = 0
          const { total, names } = await ask(store, scheduler, `${selector}&${sort}&page=${page}&size=20`)
          expect(total, sort).toBe(first.total)
          if (page === 700) expect(names, sort).toEqual(first.names)
          // A page that is cheap without an index may cost as much as the minimum for which an index is built.
          if (page === 700 || page === 701) {
            expect(scheduler.handled, `${sort} page ${page}`).toBeLessThan(little)
            expect(reads, `${sort} page ${page}`).toBeLessThan(little)
          }
        }
      }
    },
  )

  test('is the same and as cheap after writes, with the new total', async () => {
    const own = await freshStore()
    const text = `fieldSelector=spec.owner%3Do1&sort=spec.n,asc&${middle}`
    const before = await ask(own, new FairScheduler(), text)
    const snapshot = own.snapshot()
    for (let n = 1; n < 400; n += 2) {
      const name = `g${String(n).padStart(6, '0')}`
      own.apply(n % 3 === 0 ? undefined : entryOf(n, (n * 31) % count), own.get(name))
    }
    const scheduler = new CountingScheduler()
    const after = await ask(own, scheduler, text)
    expect(scheduler.handled).toBeLessThan(little)
    expect(after.total).toBe(before.total - 67)
    const everything = await ask(own, new FairScheduler(), text.replace(middle, ''))
    expect(after.names).toEqual(everything.names.slice(699 * 20, 700 * 20))
    const old = await runQuery(snapshot, query(text), scheduler, ann)
    expect(old.items.map(({ name }) => name)).toEqual(before.names)
    expect(scheduler.handled).toBeLessThan(2 * little)
  })
})

describe('a comparison', { timeout: 300_000 }, () => {
  /** What listing handles and reads, and the names of all chunks if `text` has a limit. */
  async function costOf(own: ModelStore, text: string) {
    const scheduler = new CountingScheduler()
    const names: string[] = []
    const parsed = query(text)
    let { paging } = parsed
    let total: number | undefined
    reads = 0
    for (;;) {
      const answer = await runQuery(own.snapshot(), { ...parsed, paging }, scheduler, ann)
      for (const { name } of answer.items) names.push(name)
      if (answer.kind === 'page') total = answer.total
      else if (answer.next !== undefined && paging.kind === 'chunk') {
        if (names.length > count) throw new Error('the chunks do not end')
        paging = { ...paging, after: answer.next }
        continue
      }
      return { handled: scheduler.handled, reads, total, names }
    }
  }

  /** Sorting so many objects, with a few steps for each. */
  const sorting = (objects: number) => objects * (Math.log2(objects) + 8)

  test('of a small range handles only the objects of the range, at the first request and by any sort', async () => {
    const own = await freshStore()
    const range = 'fieldSelector=spec.n>=000100,spec.n<000200'
    for (const sort of [...sorts, 'sort=spec.owner&sort=spec.tags&sort=spec.n']) {
      for (const paging of ['', 'page=3&size=20', 'page=9&size=20']) {
        const { handled, reads, total } = await costOf(own, `${range}&${sort}&${paging}`)
        expect(total).toBe(100)
        expect(handled, `${sort} ${paging}`).toBeLessThan(sorting(100))
        expect(reads, `${sort} ${paging}`).toBeLessThan(sorting(100))
      }
    }
    const chunks = await costOf(own, `${range}&limit=40`)
    expect(chunks.names).toHaveLength(100)
    expect(chunks.handled).toBeLessThan(3 * sorting(100))
    expect(own.snapshot().listIndexes.size).toBe(0)
  })

  test('of a large range reads a page in the order of the field by position, without an index of the list', async () => {
    const own = await freshStore()
    for (const [selector, sort, size] of [
      ['spec.n>000999', 'spec.n,asc', count - 1_000],
      ['spec.n>=001000,spec.n<=030999', 'spec.n,desc', 30_000],
      ['metadata.name>g030000', 'metadata.name,desc', count - 30_001],
      // Every third object and every seventh have the tag t0.
      ['spec.tags<t1', 'spec.tags,asc', 25_714],
    ] as const) {
      const { handled, reads, total, names } = await costOf(
        own,
        `fieldSelector=${selector}&sort=${sort}&page=300&size=20`,
      )
      expect(total).toBe(size)
      expect(names).toHaveLength(20)
      expect(handled, selector).toBeLessThan(little)
      expect(reads, selector).toBeLessThan(little)
    }
    expect(own.snapshot().listIndexes.size).toBe(0)
  })

  test('of a large range pages in the order of names in one pass over the objects', async () => {
    for (const selector of [
      'spec.n<030000&limit=100',
      'spec.n>=015000,spec.n<018000&limit=100',
      'spec.n<024000&limit=50000',
      'metadata.name>=g030000&limit=100',
    ]) {
      const { handled, names } = await costOf(store, `fieldSelector=${selector}`)
      expect(names.length, selector).toBeGreaterThan(2_000)
      expect(handled, selector).toBeLessThan(1.1 * count)
    }
  })

  test('of names pages by position', async () => {
    const range = 'fieldSelector=metadata.name>=g030000,metadata.name<g030100'
    const { handled, names } = await costOf(store, `${range}&limit=40`)
    expect([names.length, names[0], names[99]]).toEqual([100, 'g030000', 'g030099'])
    expect(handled).toBeLessThan(200)
  })
})

describe('chunks across all namespaces', { timeout: 300_000 }, () => {
  const namespaces = 100
  const limit = 500
  let own: ModelStore

  /** Every second object has the label `half`, every hundredth `rare`, and those of the last namespace `late`. */
  function placeOf(n: number): Entry {
    const name = `g${String(n).padStart(6, '0')}`
    const namespace = `ns${String(n % namespaces).padStart(2, '0')}`
    const labels = {
      ...(n % 200 < 100 && { half: '' }),
      ...(Math.floor(n / namespaces) % 100 === 0 && { rare: '' }),
      ...(n % namespaces === namespaces - 1 && { late: '' }),
    }
    const object = {
      ...{ apiVersion: '', kind: '', spec: {} },
      metadata: { name, namespace, uid: '', generation: 1, creationTimestamp: timestamp(n), labels },
    }
    const values = namespacedIndexes.valuesOf(object)
    return { ...{ name, namespace, revision: toRevision(n + 1), bytes: Buffer.alloc(0), labels, values } }
  }

  beforeAll(async () => {
    const entries = Array.from({ length: count }, (_, at) => {
      const perNamespace = count / namespaces
      return placeOf((at % perNamespace) * namespaces + Math.floor(at / perNamespace))
    })
    own = await ModelStore.from(namespacedIndexes, entries, new Yielder(systemClock))
  }, 300_000)

  /** Returns what each chunk handles, and the keys of all. */
  async function chunksOf(text: string) {
    const parsed = parseListQuery(new URLSearchParams(`${text}&limit=${limit}`), namespacedIndexes)
    const handled: number[] = []
    const keys: string[] = []
    let { paging } = parsed
    for (;;) {
      const scheduler = new CountingScheduler()
      const answer = await runQuery(own.snapshot(), { ...parsed, paging }, scheduler, ann)
      handled.push(scheduler.handled)
      for (const entry of answer.items) keys.push(keyOfEntry(entry))
      if (answer.kind === 'page' || answer.next === undefined || paging.kind === 'page') break
      paging = { ...paging, after: answer.next }
    }
    expect(keys).toEqual(keys.toSorted())
    return { handled, keys }
  }

  test.each([
    // Twice the objects of a chunk, and one more to see whether there is a next one.
    ['labelSelector=half', count / 2, 2 * limit + 2 + 2 * workDefaults.stride],
    ['labelSelector=!half', count / 2, 2 * limit + 2 + 2 * workDefaults.stride],
    // All objects with the label, and their sort.
    ['labelSelector=rare', count / 100, (count / 100) * (Math.log2(count / 100) + 8)],
    ['labelSelector=late', count / 100, (count / 100) * (Math.log2(count / 100) + 8)],
  ])(
    'selected by "%s" handle no more than a few objects for each that they return',
    async (text, size, most) => {
      const { handled, keys } = await chunksOf(text)
      expect(keys).toHaveLength(size)
      expect(Math.max(...handled), `${handled}`).toBeLessThanOrEqual(most)
    },
  )
})

describe('long lists', { timeout: 300_000 }, () => {
  const all = [
    ...sorts.flatMap(sort => [
      `fieldSelector=spec.owner%3Do0&${sort}`,
      `labelSelector=app%3Ddb&${sort}&page=300&size=20`,
      `labelSelector=app!%3Ddb&fieldSelector=spec.tags!%3Dt1&${sort}&page=500&size=20`,
      `${sort}&page=1&size=50000`,
    ]),
    'limit=50000',
    'labelSelector=app%20in%20(db,web)&limit=40000',
    'fieldSelector=spec.tags%20notin%20(t1,t2)&limit=40000',
    'fieldSelector=spec.owner!%3Do1&limit=40000',
  ]

  test('stay within their bound of work per turn of the event loop, regardless of their number', async () => {
    const own = await freshStore()
    const scheduler = new CountingScheduler()
    const snapshot = own.snapshot()
    await Promise.all(all.map(text => runQuery(snapshot, query(text), scheduler, ann)))
    expect(scheduler.handled).toBeGreaterThan(10 * workTurnsDefaults.entries)
    expect(scheduler.mostInTurn).toBeLessThanOrEqual(workTurnsDefaults.entries + 2 * workDefaults.stride)
    expect(scheduler.largestStep).toBeLessThanOrEqual(2 * workDefaults.stride)
    // Three sort keys or terms read the values of an object that many times.
    expect(scheduler.largestReads).toBeLessThanOrEqual(8 * workDefaults.stride)
  })

  test('stop when their client has gone, and so does an index build without waiting lists', async () => {
    const own = await freshStore()
    const text = `fieldSelector=spec.owner%3Do0&sort=spec.n&${middle}`
    for (const asked of [text, text.replace(middle, '')]) {
      const scheduler = new CountingScheduler()
      const gone = new AbortController()
      const answer = ask(own, scheduler, asked, { caller: 'ann', signal: gone.signal })
      const reason = new Error('gone')
      gone.abort(reason)
      await expect(answer).rejects.toBe(reason)
      const { handled } = scheduler
      for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate)
      expect(scheduler.handled).toBe(handled)
    }
    expect(own.snapshot().listIndexes.size).toBe(0)
    const gone = new AbortController()
    const scheduler = new CountingScheduler()
    const [left, stayed] = [
      ask(own, scheduler, text, { caller: 'bob', signal: gone.signal }),
      ask(own, scheduler, text),
    ]
    gone.abort(new Error('gone'))
    await expect(left).rejects.toThrow('gone')
    expect((await stayed).names).toHaveLength(20)
    expect(own.snapshot().listIndexes.size).toBe(1)
  })

  test('are bounded in number while they wait: one more gets 429', async () => {
    const scheduler = new FairScheduler(1)
    const snapshot = store.snapshot()
    const gone = new AbortController()
    setMaxListeners(0, gone.signal)
    const asked = Array.from(
      { length: fairSchedulerDefaults.atOncePerCaller + fairSchedulerDefaults.waitingPerCaller + 50 },
      () =>
        runQuery(snapshot, query('sort=spec.n&page=1&size=50000'), scheduler, {
          caller: 'ann',
          signal: gone.signal,
        }).then(
          () => 'answered',
          error => (error === gone.signal.reason ? 'gone' : error.reason),
        ),
    )
    await new Promise(setImmediate)
    gone.abort(new Error('gone'))
    const outcomes = await Promise.all(asked)
    expect(outcomes.filter(outcome => outcome === 'TooManyRequests').length).toBeGreaterThan(0)
    expect(new Set(outcomes)).toEqual(new Set(['TooManyRequests', 'gone']))
  })
})

describe('indexes built for lists', { timeout: 300_000 }, () => {
  test('are also built for cheaper lists that are repeated, without evicting more useful ones', async () => {
    const own = await freshStore()
    const { listIndexes } = own.snapshot()
    const dear = `fieldSelector=spec.owner%3Do0&sort=spec.n&${middle}`
    await ask(own, new FairScheduler(), dear)
    const days = Array.from({ length: listIndexDefaults.indexes + 5 }, (_, at) => at)
    const cheap = (at: number) => `fieldSelector=spec.n%20in%20(${few(at)})&sort=spec.owner&page=2&size=20`
    for (const at of days) await ask(own, new FairScheduler(), cheap(at))
    expect(listIndexes.size).toBe(1)
    for (const at of days) await ask(own, new FairScheduler(), cheap(at))
    expect(listIndexes.size).toBe(listIndexDefaults.indexes)
    const scheduler = new CountingScheduler()
    await ask(own, scheduler, dear)
    await ask(own, scheduler, cheap(days.length - 1))
    // Each of the thousand values of a request needs a search.
    expect(scheduler.handled).toBeLessThan(2 * little + 8 * 1000)
  })

  test('are bounded in number and size, and the last one built stays', async () => {
    const own = await freshStore()
    const { listIndexes } = own.snapshot()
    const texts = ['spec.owner%3Do0', 'spec.owner%3Do1', 'spec.tags%3Dt1'].flatMap(selector =>
      sorts.map(sort => `fieldSelector=${selector}&${sort}&page=500&size=20`),
    )
    for (const text of texts) {
      await ask(own, new FairScheduler(), text)
      const scheduler = new CountingScheduler()
      await ask(own, scheduler, text)
      expect(scheduler.handled).toBeLessThan(little)
      expect(listIndexes.size).toBeLessThanOrEqual(listIndexDefaults.indexes)
      expect(listIndexes.entries).toBeLessThanOrEqual(listIndexDefaults.entriesPerObject * count)
    }
    expect(listIndexes.size).toBeGreaterThan(2)
  })

  test('are evicted when they have not been used for a while', async () => {
    const own = await freshStore()
    await ask(own, new FairScheduler(), `fieldSelector=spec.owner%3Do0&sort=spec.n&${middle}`)
    const { listIndexes } = own.snapshot()
    for (let trim = 0; trim < listIndexDefaults.idleTrims; trim++) own.trim()
    expect(listIndexes.size).toBe(1)
    own.trim()
    expect(listIndexes.size).toBe(0)
  })

  test('are built once for all waiting lists, and only if they save much work', async () => {
    const own = await freshStore()
    const scheduler = new CountingScheduler()
    const text = `fieldSelector=spec.owner%3Do0&sort=spec.n&${middle}`
    await ask(own, scheduler, text)
    const once = scheduler.handled
    const other = new CountingScheduler()
    const again = await freshStore()
    await Promise.all(Array.from({ length: 20 }, () => ask(again, other, text)))
    expect(other.handled).toBeLessThan(once + 20 * little)
    const { size } = own.snapshot().listIndexes
    for (const cheap of [
      'sort=spec.n',
      'fieldSelector=spec.n%3D000001&sort=spec.owner',
      'sort=spec.n&sort=spec.owner',
    ])
      await ask(own, scheduler, `${cheap}&page=1&size=20`)
    expect(own.snapshot().listIndexes.size).toBe(size)
  })
})

describe('callers', { timeout: 300_000 }, () => {
  test('are shared fairly: a list of one does not wait for all lists of another', async () => {
    const scheduler = new FairScheduler()
    const snapshot = store.snapshot()
    const done: string[] = []
    const list = (caller: string, n: number) =>
      runQuery(snapshot, query('sort=spec.n&page=1&size=50000'), scheduler, { caller }).then(() => {
        done.push(`${caller}${n}`)
      })
    const many = Array.from({ length: 40 }, (_, n) => list('ann', n))
    await list('bob', 0)
    expect(done.length).toBeLessThan(1 + 2 * fairSchedulerDefaults.atOncePerCaller)
    await Promise.all(many)
    expect(scheduler.size).toBe(0)
  })

  test('with too much waiting work are refused, and others are not', async () => {
    const scheduler = new FairScheduler(1)
    const snapshot = store.snapshot()
    const gone = new AbortController()
    setMaxListeners(0, gone.signal)
    const list = (caller: string) =>
      runQuery(snapshot, query('sort=spec.n&page=1&size=50000'), scheduler, {
        caller,
        signal: gone.signal,
      }).then(
        () => 'answered',
        error => (error === gone.signal.reason ? 'gone' : error.code),
      )
    const { atOncePerCaller, waitingPerCaller } = fairSchedulerDefaults
    const asked = Array.from({ length: atOncePerCaller + waitingPerCaller + 50 }, () => list('ann'))
    const other = list('bob')
    await new Promise(setImmediate)
    expect(scheduler.size).toBe(atOncePerCaller + waitingPerCaller + 1)
    gone.abort(new Error('gone'))
    expect(scheduler.size).toBe(0)
    expect((await Promise.all(asked)).filter(outcome => outcome === 429)).toHaveLength(50)
    expect(await other).toBe('gone')
  })

  test('each build one index at a time, and list without an index meanwhile', async () => {
    const own = await freshStore()
    const { listIndexes } = own.snapshot()
    const gone = new AbortController()
    setMaxListeners(0, gone.signal)
    const owner = (caller: string) => ({ caller, signal: gone.signal })
    const scheduler = new CountingScheduler(64)
    const texts = Array.from(
      { length: 50 },
      (_, n) => `fieldSelector=spec.owner%3Do0&labelSelector=x${n}!%3Dy&sort=spec.tags&${middle}`,
    )
    const lists = texts.map(text => ask(own, scheduler, text, owner('ann')).catch(() => undefined))
    for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate)
    expect(listIndexes.building).toBe(1)
    lists.push(ask(own, scheduler, `${texts[0]}&sort=spec.n`, owner('bob')).catch(() => undefined))
    for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate)
    expect(listIndexes.building).toBe(2)
    gone.abort(new Error('gone'))
    await Promise.all(lists)
    expect([listIndexes.building, listIndexes.size, scheduler.size]).toEqual([0, 0, 0])
  })

  test('with many indexes lose their own, not those of others', async () => {
    const own = await freshStore()
    const bobs = `fieldSelector=spec.owner%3Do1&sort=spec.n&${middle}`
    await ask(own, new FairScheduler(), bobs, { caller: 'bob' })
    for (let n = 0; n < 2 * listIndexDefaults.indexes; n++)
      await ask(
        own,
        new FairScheduler(),
        `fieldSelector=spec.owner%3Do0&labelSelector=x${n}!%3Dy&sort=spec.n&${middle}`,
      )
    const scheduler = new CountingScheduler()
    await ask(own, scheduler, bobs, { caller: 'bob' })
    expect(scheduler.handled).toBeLessThan(little)
  })
})
