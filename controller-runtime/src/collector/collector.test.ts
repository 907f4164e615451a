import { Registry } from 'prom-client'
import { afterEach, describe, expect, test } from 'vitest'
import { ApiError, type StatusDetails, type StatusReason } from '../api/errors.ts'
import { defineModel, type Model } from '../api/model.ts'
import type { ApiObject, OwnerReference } from '../api/object.ts'
import { setOwnerReference } from '../api/owners.ts'
import type {
  Transport,
  TransportRequest,
  TransportResponse,
  WatchConnection,
  WatchRequestOptions,
} from '../client/transport.ts'
import { type Clock, systemClock } from '../clock.ts'
import { type Logger, silentLogger } from '../logger.ts'
import { ControllerMetrics } from '../metrics/index.ts'
import { eventually } from '../testing/eventually.ts'
import { FakeClock } from '../testing/fake-clock.ts'
import { startTestServer } from '../testing/test-server.ts'
import { Collector } from './collector.ts'
import { collectorDefaults } from './defaults.ts'
import { fixedKinds, type KindSource } from './kind-source.ts'
import { orphanRecordModel } from './orphan-records.ts'

const model = (kind: string, plural: string) =>
  defineModel({
    group: `${plural}.example.com`,
    version: 'v1',
    kind,
    singular: kind.toLowerCase(),
    plural,
    schema: { spec: { type: 'object', properties: { note: { type: 'string' } } } },
  })
const Item = model('Item', 'items')
const Part = model('Part', 'parts')

/** Comes between the collector and its server; without a plan everything passes. */
class Between implements Transport {
  /** Answers in place of the server, or does something before it gets the request. */
  onRequest: (request: TransportRequest) => Promise<TransportResponse | undefined> | undefined = () =>
    undefined
  /** Awaited before the answer is passed on. */
  onAnswer: (request: TransportRequest) => Promise<void> | undefined = () => undefined
  /** What the collector gets of a watch in place of the server's. */
  onWatch: (path: string, connection: WatchConnection) => WatchConnection = (_path, connection) => connection
  readonly requests: string[] = []
  underWay = 0
  mostUnderWay = 0
  readonly #inner: Transport

  constructor(inner: Transport) {
    this.#inner = inner
  }

  async request(request: TransportRequest): Promise<TransportResponse> {
    this.requests.push(`${request.method} ${request.path}`)
    this.mostUnderWay = Math.max(this.mostUnderWay, ++this.underWay)
    try {
      const answer = (await this.onRequest(request)) ?? (await this.#inner.request(request))
      await this.onAnswer(request)
      return answer
    } finally {
      this.underWay--
    }
  }

  async watch(path: string, options: WatchRequestOptions): Promise<WatchConnection> {
    return this.onWatch(path, await this.#inner.watch(path, options))
  }
}

const cleanUps: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp()
})

async function collecting(
  kinds: KindSource = fixedKinds([Item, Part]),
  prepare: (between: Between) => void = () => {},
  clock: Clock = systemClock,
) {
  const server = await startTestServer({ models: [Item, Part], collector: false })
  cleanUps.push(() => server.close())
  const between = new Between(server.transport)
  prepare(between)
  const registry = new Registry()
  const metrics = new ControllerMetrics(registry)
  const collector = new Collector({ kinds, metrics, clock })
  const warnings: string[] = []
  const log: Logger = {
    ...silentLogger,
    warn: (_fields, message) => void warnings.push(message),
    child: () => log,
  }
  const manager = server.manager({ transport: between, log })
  manager.add(collector)
  const { client } = server
  let witnesses = 0
  const of = (owners: readonly ApiObject[], name: string, finalizers: string[] = []) => {
    let part = { metadata: { name, finalizers }, spec: {} }
    for (const owner of owners) part = setOwnerReference(owner, part, { blockOwnerDeletion: true })
    return client.create(Part, part)
  }
  return {
    client,
    between,
    warnings,
    collector,
    registry,
    manager,
    /** Another one of the same server, started. */
    nextManager() {
      const next = server.manager({ transport: between, log })
      next.start()
      return next
    },
    create: (name: string) => client.create(Item, { metadata: { name }, spec: {} }),
    of,
    ghost: (name: string): ApiObject => ({
      apiVersion: Item.apiVersion,
      kind: Item.kind,
      metadata: {
        name,
        uid: `ghost-${name}`,
        version: '1',
        resourceVersion: '1',
        generation: 1,
        creationTimestamp: '',
      },
      spec: {},
    }),
    names: async () => (await client.list(Part)).items.map(({ metadata }) => metadata.name).toSorted(),
    isGone: (kind: Model, name: string) =>
      eventuallyAsync(async () => (await client.getIfExists(kind, name)) === undefined),
    /** Everything that was due before has been worked on, but for what failed. */
    async hasPassed() {
      for (let round = 0; round < 2; round++) {
        const { metadata } = await of([this.ghost(`witness-${++witnesses}`)], `witness-${witnesses}`)
        await this.isGone(Part, metadata.name)
      }
    },
  }
}

async function eventuallyAsync(condition: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + 60_000
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`not in time: ${condition}`)
    await new Promise(resolve => setTimeout(resolve, 2))
  }
}

const referencesOf = ({ metadata }: ApiObject): readonly OwnerReference[] => metadata.ownerReferences ?? []

const isRead = ({ method, path }: TransportRequest, kind: Model, name: string) =>
  method === 'GET' && path.endsWith(`/${kind.plural}/${name}`)

function refusal(reason: StatusReason, details?: StatusDetails): TransportResponse {
  const error = new ApiError(reason, 'refused', details)
  return { status: error.code, headers: {}, body: JSON.stringify(error.toStatus()) }
}

describe('an owner counts as gone only when the server has said so of this very object', () => {
  const answers: Record<string, TransportResponse> = {
    'a route that nobody serves': refusal('NotFound'),
    'something on the way that knows no such path': { status: 404, headers: {}, body: '<h1>Not Found</h1>' },
    'a 404 about another object': refusal('NotFound', {
      group: Item.group,
      kind: 'items',
      name: 'someone-else',
    }),
    'a 404 about another kind': refusal('NotFound', { group: 'x', kind: 'items', name: 'owner' }),
    'a kind that is not ready': refusal('ServiceUnavailable', { group: Item.group, kind: 'items' }),
    'a fault of the server': refusal('InternalError'),
    'an answer that is no object': { status: 200, headers: {}, body: '{}' },
    'a read that is not allowed': refusal('Forbidden'),
    'an answer that never comes in time': refusal('Timeout'),
  }
  test.each(Object.entries(answers))('%s says nothing', async (_what, answer) => {
    const world = await collecting(fixedKinds([Item, Part]), between => {
      between.onRequest = async request => (isRead(request, Item, 'owner') ? answer : undefined)
    })
    const part = await world.of([world.ghost('owner')], 'part')
    world.manager.start()
    await eventually(() => world.between.requests.some(request => request.endsWith('/items/owner')))
    await world.hasPassed()
    expect((await world.client.get(Part, 'part')).metadata.version).toBe(part.metadata.version)
    expect(world.collector.counts.failed).toBeGreaterThan(0)
    // Once it can be read, the truth is found without anything else happening.
    world.between.onRequest = () => undefined
    await world.isGone(Part, 'part')
  })

  test.each([
    ['is away for a moment', 'ServiceUnavailable', []],
    ['has a fault', 'InternalError', ['not done; trying again']],
  ] as const)('a server that %s is told of as it deserves (%s)', async (_what, reason, told) => {
    let refused = 0
    const world = await collecting(fixedKinds([Item, Part]), between => {
      between.onRequest = async request =>
        isRead(request, Item, 'owner') && refused++ === 0 ? refusal(reason) : undefined
    })
    await world.of([world.ghost('owner')], 'part')
    world.manager.start()
    await world.isGone(Part, 'part')
    expect(refused).toBeGreaterThan(1)
    expect(world.warnings).toEqual(told)
  })

  test('what it has done, what failed and how its queue is are told to Prometheus, from the beginning', async () => {
    const world = await collecting()
    const valueIn = async (series: string) => {
      const line = (await world.registry.metrics()).split('\n').find(text => text.startsWith(`${series} `))
      return line && Number(line.slice(series.length))
    }
    const action = (name: string) => valueIn(`setpoint_collector_objects_total{action="${name}"}`)
    const queue = 'name="collector",controller="collector"'
    expect([await action('deleted'), await action('released'), await action('ended')]).toEqual([0, 0, 0])
    expect(await valueIn('setpoint_collector_errors_total')).toBe(0)
    const owner = await world.create('owner')
    await world.of([owner], 'kept')
    const other = await world.create('other')
    await world.of([other], 'collected')
    let refused = 0
    world.between.onRequest = request =>
      isRead(request, Item, 'other') && refused++ === 0
        ? Promise.reject(new ApiError('InternalError', 'once'))
        : undefined
    world.manager.start()
    await world.client.delete(Item, 'owner', { propagationPolicy: 'Orphan' })
    await world.client.delete(Item, 'other')
    await world.isGone(Item, 'owner')
    await world.isGone(Part, 'collected')
    await eventuallyAsync(async () => (await action('deleted')) === 1 && (await action('ended')) === 1)
    expect(await action('released')).toBe(1)
    expect(await valueIn('setpoint_collector_errors_total')).toBe(1)
    expect(await valueIn(`workqueue_adds_total{${queue}}`)).toBeGreaterThan(3)
    expect(await valueIn(`workqueue_retries_total{${queue}}`)).toBe(1)
    await eventuallyAsync(async () => (await valueIn(`workqueue_depth{${queue},priority="0"}`)) === 0)
    // Who stands by has no queue, and what it did is not forgotten.
    await world.manager.stop()
    expect(await valueIn(`workqueue_adds_total{${queue}}`)).toBeUndefined()
    expect(await action('deleted')).toBe(1)
  })

  test('a kind that is not served says nothing, until it is', async () => {
    let serveItems = () => {}
    const kinds: KindSource = {
      async *follow() {
        yield [Part]
        await new Promise<void>(resolve => {
          serveItems = resolve
        })
        yield [Part, Item]
      },
    }
    const world = await collecting(kinds)
    const owner = await world.create('owner')
    await world.of([world.ghost('nobody')], 'orphaned')
    await world.of([owner], 'owned')
    const Other = model('Other', 'others')
    const stranger = { ...owner, apiVersion: Other.apiVersion, kind: Other.kind }
    await world.of([stranger], 'of-a-stranger')
    world.manager.start()
    const witness = await world.of([], 'witness')
    await world.of([{ ...witness, metadata: { ...witness.metadata, uid: 'another' } }], 'dangling')
    await world.isGone(Part, 'dangling')
    expect(await world.names()).toEqual(['of-a-stranger', 'orphaned', 'owned', 'witness'])
    serveItems()
    await world.isGone(Part, 'orphaned')
    await world.hasPassed()
    expect(await world.names()).toEqual(['of-a-stranger', 'owned', 'witness'])
  })

  test('a watch that says that the owner has gone is not believed', async () => {
    let tell: (text: string) => void = () => {}
    const world = await collecting(fixedKinds([Item, Part]), between => {
      between.onWatch = (path, connection) => {
        if (!path.includes('/items')) return connection
        return withMore(connection, say => {
          tell = say
        })
      }
    })
    const owner = await world.create('owner')
    const part = await world.of([owner], 'part')
    world.manager.start()
    await world.hasPassed()
    const reads = () => world.between.requests.filter(request => request.endsWith('/items/owner')).length
    const before = reads()
    const version = String(Number(part.metadata.version) + 100)
    const object = { ...owner, metadata: { ...owner.metadata, version, resourceVersion: version } }
    tell(JSON.stringify({ type: 'DELETED', object }))
    await eventually(() => reads() > before)
    await world.hasPassed()
    expect((await world.client.get(Part, 'part')).metadata.version).toBe(part.metadata.version)
  })
})

describe('nothing is missed', () => {
  test('an owner that goes while it is being looked at is looked at again', async () => {
    const world = await collecting()
    world.manager.start()
    await world.hasPassed()
    const owner = await world.create('owner')
    let release = () => {}
    let held = false
    world.between.onAnswer = request => {
      if (held || !isRead(request, Item, 'owner')) return undefined
      held = true
      return new Promise(resolve => {
        release = resolve
      })
    }
    await world.of([owner], 'part')
    await eventually(() => held)
    await world.client.delete(Item, 'owner')
    // The deletion is told while the answer, which says that the owner is there, is still on its way.
    await world.of([await world.create('other')], 'later')
    await world.hasPassed()
    release()
    await world.isGone(Part, 'part')
    expect(await world.names()).toEqual(['later'])
  })

  test('one that is adopted between the look and the deletion stays, with its new owner only', async () => {
    const world = await collecting()
    const adopter = await world.create('adopter')
    const part = await world.of([world.ghost('nobody')], 'part')
    let adopted = false
    world.between.onRequest = async ({ method, path }) => {
      if (method !== 'DELETE' || adopted || !path.endsWith('/parts/part')) return undefined
      adopted = true
      await world.client.update(Part, setOwnerReference(adopter, part))
      return undefined
    }
    world.manager.start()
    await eventually(() => adopted)
    await eventuallyAsync(async () => referencesOf(await world.client.get(Part, 'part')).length === 1)
    await world.hasPassed()
    const left = await world.client.get(Part, 'part')
    expect(left.metadata.uid).toBe(part.metadata.uid)
    expect(referencesOf(left)).toMatchObject([{ uid: adopter.metadata.uid }])
  })

  test('orphans are found before the deletion ends, however late their watch tells of them', async () => {
    let release = () => {}
    let gate: Promise<void> | undefined
    let looks = 0
    const world = await collecting(fixedKinds([Item, Part]), between => {
      between.onWatch = (path, connection) => {
        if (!path.includes('/parts')) return connection
        if (!path.includes('timeoutSeconds')) return gated(connection, () => gate)
        looks++
        return connection
      }
    })
    world.manager.start()
    await world.hasPassed()
    gate = new Promise(resolve => {
      release = resolve
    })
    const owner = await world.create('owner')
    const part = await world.of([owner], 'part')
    await world.client.delete(Item, 'owner', { propagationPolicy: 'Orphan' })
    // It has been looked at several times, and each time something was found that was not told yet.
    await eventually(() => looks >= 3)
    expect((await world.client.get(Item, 'owner')).metadata.finalizers).toEqual(['orphan'])
    gate = undefined
    release()
    await world.isGone(Item, 'owner')
    const left = await world.client.get(Part, 'part')
    expect(left.metadata.uid).toBe(part.metadata.uid)
    expect(referencesOf(left)).toEqual([])
  })
})

describe('nothing waits for the slowest', () => {
  test('a kind that does not answer keeps no deletion with orphans for ever, and its objects are let go when it does', async () => {
    const Record = orphanRecordModel('setpoint.dev')
    const kinds = fixedKinds([Item, Part, Record])
    const clock = new FakeClock()
    let failed = true
    const world = await collecting(
      kinds,
      between => {
        const watch = between.watch.bind(between)
        between.watch = (path, options) =>
          failed && path.includes('/parts')
            ? Promise.reject(new ApiError('ServiceUnavailable', 'the plugin has failed'))
            : watch(path, options)
      },
      clock,
    )
    const owner = await world.create('owner')
    const orphan = await world.of([owner], 'orphan')
    const other = await world.create('other')
    await world.of([other], 'collected')
    world.manager.start()
    await world.client.delete(Item, 'owner', { propagationPolicy: 'Orphan' })
    await world.client.delete(Item, 'other')
    const isThere = async () => (await world.client.getIfExists(Item, 'owner')) !== undefined
    while (clock.monotonic() < collectorDefaults.silenceMs - 1_000) {
      await clock.advance(1_000)
      expect(await isThere()).toBe(true)
    }
    await eventuallyAsync(async () => {
      await clock.advance(1_000)
      return !(await isThere())
    })
    const record = await world.client.get(Record, owner.metadata.uid)
    expect(record.spec).toMatchObject({
      owner: { kind: 'Item', name: 'owner', uid: owner.metadata.uid },
      kinds: ['parts.example.com/parts'],
    })
    expect(await world.names()).toEqual(['collected', 'orphan'])
    // It is for whoever collects when the plugin is repaired: another process, later.
    await world.manager.stop()
    failed = false
    const later = new Collector({ kinds, clock })
    world.nextManager().add(later)
    await world.isGone(Part, 'collected')
    await eventuallyAsync(async () => referencesOf(await world.client.get(Part, 'orphan')).length === 0)
    expect((await world.client.get(Part, 'orphan')).metadata.uid).toBe(orphan.metadata.uid)
    await eventuallyAsync(async () => {
      await clock.advance(collectorDefaults.recordsMs)
      return (await world.client.getIfExists(Record, record.metadata.name)) === undefined
    })
    expect(later.counts).toMatchObject({ deleted: 1, released: 1 })
  })

  test('what cannot be deleted holds up nobody else, and is tried again', async () => {
    const world = await collecting()
    const nobody = world.ghost('nobody')
    const isStuck = ({ method, path }: TransportRequest) =>
      method === 'DELETE' && path.endsWith('/parts/stuck')
    world.between.onRequest = async request => (isStuck(request) ? refusal('InternalError') : undefined)
    await world.of([nobody], 'stuck')
    await world.of([nobody], 'held', ['example.com/hold'])
    for (let n = 0; n < 50; n++) await world.of([nobody], `part-${n}`)
    world.manager.start()
    await eventuallyAsync(async () => (await world.names()).length === 2)
    expect(await world.names()).toEqual(['held', 'stuck'])
    world.between.onRequest = () => undefined
    await world.isGone(Part, 'stuck')
  })

  test('requests that get no answer keep only their own places', async () => {
    const world = await collecting()
    const silent = new Promise<undefined>(() => {})
    world.between.onRequest = ({ method, path }) =>
      method === 'DELETE' && path.includes('/parts/silent-') ? silent : undefined
    for (let n = 0; n < collectorDefaults.concurrency - 1; n++)
      await world.of([world.ghost('nobody')], `silent-${n}`)
    for (let n = 0; n < 20; n++) await world.of([world.ghost('nobody')], `part-${n}`)
    world.manager.start()
    await eventuallyAsync(async () => !(await world.names()).some(name => name.startsWith('part-')))
    expect((await world.names()).length).toBe(collectorDefaults.concurrency - 1)
    await world.manager.stop({ force: true })
  })

  test('any number of dependents is worked on with a bounded number of requests', async () => {
    const world = await collecting()
    const owner = await world.create('owner')
    for (let n = 0; n < 300; n++) await world.of([owner], `part-${n}`)
    world.manager.start()
    await world.hasPassed()
    const lookups = world.between.requests.filter(request => request.endsWith('/items/owner')).length
    expect(lookups).toBeLessThanOrEqual(1)
    await world.client.delete(Item, 'owner', { propagationPolicy: 'Foreground' })
    await world.isGone(Item, 'owner')
    expect(await world.names()).toEqual([])
    expect(world.between.mostUnderWay).toBeLessThanOrEqual(collectorDefaults.concurrency)
    expect(world.collector.counts).toMatchObject({ deleted: 302, ended: 1 })
  })
})

test('a collector that is stopped asks and writes nothing more', async () => {
  const world = await collecting()
  world.manager.start()
  await world.hasPassed()
  await world.manager.stop()
  const { length } = world.between.requests
  await world.of([world.ghost('nobody')], 'part')
  const other = await collecting()
  other.manager.start()
  await other.hasPassed()
  expect(world.between.requests.length).toBe(length)
  expect(await world.names()).toEqual(['part'])
})

/** A connection that tells nothing as long as there is a gate. */
function gated(connection: WatchConnection, gate: () => Promise<void> | undefined): WatchConnection {
  return {
    end: connection.end,
    close: () => connection.close(),
    async *[Symbol.asyncIterator]() {
      for await (const frame of connection) {
        await Promise.race([gate(), connection.end])
        yield frame
      }
    },
  }
}

/** A connection that also tells what it is given. */
function withMore(connection: WatchConnection, give: (say: (text: string) => void) => void): WatchConnection {
  return {
    end: connection.end,
    close: () => connection.close(),
    async *[Symbol.asyncIterator]() {
      const frames = connection[Symbol.asyncIterator]()
      let said = new Promise<string>(give)
      let next = frames.next()
      for (;;) {
        const first = await Promise.race([said, next])
        if (typeof first === 'string') {
          said = new Promise<string>(give)
          yield first
          continue
        }
        if (first.done === true) return
        next = frames.next()
        yield first.value
      }
    },
  }
}
