import { Registry } from 'prom-client'
import { afterEach, describe, expect, test } from 'vitest'
import { eventually } from '../../../test/support/sdk/eventually.ts'
import { ApiError, type StatusDetails, type StatusReason } from '../api/errors.ts'
import { defineModel, type Model } from '../api/model.ts'
import type { ApiObject, OwnerReference } from '../api/object.ts'
import { setOwnerReference } from '../api/owners.ts'
import { createClient } from '../client/create-client.ts'
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
import { FakeClock } from '../testing/fake-clock.ts'
import { startTestServer } from '../testing/test-server.ts'
import { Collector } from './collector.ts'
import { collectorDefaults } from './defaults.ts'
import { fixedKinds, type KindSource } from './kind-source.ts'
import { KindView } from './kind-view.ts'
import { orphanRecordModel } from './orphan-records.ts'

const model = (kind: string, plural: string, scope: Model['scope'] = 'Cluster') =>
  defineModel({
    group: `${plural}.example.com`,
    version: 'v1',
    kind,
    singular: kind.toLowerCase(),
    plural,
    scope,
    schema: { spec: { type: 'object', properties: { note: { type: 'string' } } } },
  })
const Item = model('Item', 'items')
const Part = model('Part', 'parts')
const Box = model('Box', 'boxes', 'Namespaced')
const Toy = model('Toy', 'toys', 'Namespaced')

/** A transport between the collector and its server; by default everything passes. */
class Between implements Transport {
  /** Responds in place of the server, or acts before the request is sent. */
  onRequest: (request: TransportRequest) => Promise<TransportResponse | undefined> | undefined = () =>
    undefined
  /** Awaited before the response is passed on. */
  onAnswer: (request: TransportRequest) => Promise<void> | undefined = () => undefined
  /** Replaces the connection of a watch. */
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
  const server = await startTestServer({ models: [Item, Part, Box, Toy], collector: false })
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
    /** Starts another collector of the same server. */
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
    /** Resolves when all work that was due has been done, except failed work. */
    async hasPassed() {
      for (let round = 0; round < 2; round++) {
        const { metadata } = await of([this.ghost(`witness-${++witnesses}`)], `witness-${witnesses}`)
        await this.isGone(Part, metadata.name)
      }
    },
  }
}

async function eventuallyAsync(condition: () => Promise<boolean>): Promise<void> {
  await expect.poll(condition, { interval: 2 }).toBe(true)
}

/** Serves items until they are withdrawn, and parts. */
class WithdrawnItems implements KindSource {
  #end = () => {}
  #isWithdrawn = false

  async *follow(signal: AbortSignal) {
    yield [Item, Part]
    await new Promise<void>(resolve => {
      this.#end = resolve
    })
    yield [Part]
    this.#isWithdrawn = true
    await new Promise(resolve => signal.addEventListener('abort', resolve))
  }

  async withdraw(): Promise<void> {
    this.#end()
    await eventually(() => this.#isWithdrawn)
  }
}

const referencesOf = ({ metadata }: ApiObject): readonly OwnerReference[] => metadata.ownerReferences ?? []

const isRead = ({ method, path }: TransportRequest, kind: Model, name: string) =>
  method === 'GET' && path.endsWith(`/${kind.plural}/${name}`)

function refusal(reason: StatusReason, details?: StatusDetails): TransportResponse {
  const error = new ApiError(reason, 'refused', details)
  return { status: error.code, headers: {}, body: JSON.stringify(error.toStatus()) }
}

describe('an owner counts as absent only if the server says so of this very object', () => {
  const answers: Record<string, TransportResponse> = {
    'an unknown route': refusal('NotFound'),
    'a proxy that does not know the path': { status: 404, headers: {}, body: '<h1>Not Found</h1>' },
    'a 404 about another object': refusal('NotFound', {
      group: Item.group,
      kind: 'items',
      name: 'someone-else',
    }),
    'a 404 about another kind': refusal('NotFound', { group: 'x', kind: 'items', name: 'owner' }),
    'a kind that is not ready': refusal('ServiceUnavailable', { group: Item.group, kind: 'items' }),
    'an internal error': refusal('InternalError'),
    'a response that is not an object': { status: 200, headers: {}, body: '{}' },
    'a forbidden read': refusal('Forbidden'),
    'a timeout': refusal('Timeout'),
  }
  test.each(Object.entries(answers))('%s does not count as absent', async (_what, answer) => {
    const world = await collecting(fixedKinds([Item, Part]), between => {
      between.onRequest = async request => (isRead(request, Item, 'owner') ? answer : undefined)
    })
    const part = await world.of([world.ghost('owner')], 'part')
    world.manager.start()
    await eventually(() => world.between.requests.some(request => request.endsWith('/items/owner')))
    await world.hasPassed()
    expect((await world.client.get(Part, 'part')).metadata.version).toBe(part.metadata.version)
    expect(world.collector.counts.failed).toBeGreaterThan(0)
    // Once it can be read, the owner is found absent without another event.
    world.between.onRequest = () => undefined
    await world.isGone(Part, 'part')
  })

  test.each([
    ['is away for a moment', 'ServiceUnavailable', []],
    ['has an internal error', 'InternalError', ['garbage collection failed, retrying']],
  ] as const)('a server that %s logs the right warnings (%s)', async (_what, reason, told) => {
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

  test('totals, errors and queue metrics exist from the start', async () => {
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
    // A standby has no queue, and its totals are kept.
    await world.manager.stop()
    expect(await valueIn(`workqueue_adds_total{${queue}}`)).toBeUndefined()
    expect(await action('deleted')).toBe(1)
  })

  test('a kind that is not served shows nothing until it is', async () => {
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

  test('deletions that a kind has reported count, though they arrive when it is no longer served', async () => {
    const kinds = new WithdrawnItems()
    let release = () => {}
    const released = new Promise<void>(resolve => {
      release = resolve
    })
    let isHolding = false
    const world = await collecting(kinds, between => {
      between.onWatch = (path, connection) => {
        if (!path.includes('/items')) return connection
        return {
          end: connection.end,
          close: () => connection.close(),
          async *[Symbol.asyncIterator]() {
            for await (const frame of connection) {
              if (isHolding) await released
              yield frame
            }
          },
        }
      }
    })
    const owner = await world.create('owner')
    await world.of([owner], 'part')
    world.manager.start()
    await world.hasPassed()
    isHolding = true
    await world.client.delete(Item, 'owner')
    await kinds.withdraw()
    expect(await world.names()).toEqual(['part'])
    release()
    await world.isGone(Part, 'part')
  })

  // As in a restored store, which has the owner again, until its kind is discovered.
  test('the reported deletion of an owner does not count for a dependent that is newer', async () => {
    const kinds = new WithdrawnItems()
    const world = await collecting(kinds)
    const owner = await world.create('owner')
    await world.of([owner], 'part')
    let isRefusing = true
    world.between.onRequest = async ({ method, path }) =>
      isRefusing && method === 'DELETE' && path.endsWith('/part') ? refusal('ServiceUnavailable') : undefined
    world.manager.start()
    await world.hasPassed()
    await world.client.delete(Item, 'owner')
    await eventually(() => world.collector.counts.failed > 0)
    await kinds.withdraw()
    await world.client.patch(Part, 'part', { spec: { note: 'restored' } })
    isRefusing = false
    const witness = await world.of([], 'witness')
    const ghost = { ...witness, metadata: { ...witness.metadata, uid: 'another' } }
    for (const name of ['dangling-1', 'dangling-2']) {
      await world.of([ghost], name)
      await world.isGone(Part, name)
    }
    expect(await world.names()).toEqual(['part', 'witness'])
  })

  test('the watch of a kind that is no longer served is not opened again', async () => {
    const world = await collecting()
    let end: (() => void) | undefined
    world.between.onWatch = (_path, connection) => {
      end = () => connection.close()
      return connection
    }
    const client = createClient(world.between)
    const view = new KindView(Item, { client, concerns: () => true, take: () => {} })
    view.start()
    await eventually(() => view.hasReached('1'))
    const finished = view.finish()
    end?.()
    await finished
  })

  test('a deletion event of the owner is verified by a live read', async () => {
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

describe('races', () => {
  test('an owner that is deleted during its check is checked again', async () => {
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
    // The deletion event arrives while the response, which still has the owner, is on its way.
    await world.of([await world.create('other')], 'later')
    await world.hasPassed()
    release()
    await world.isGone(Part, 'part')
    expect(await world.names()).toEqual(['later'])
  })

  test('a dependent that is adopted between check and deletion stays, with only its new owner', async () => {
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

  test('orphans are found before the deletion completes, however late their watch reports them', async () => {
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
    // The check ran several times, and each time found an object that was not reported yet.
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

describe('isolation', () => {
  test('a kind that does not respond blocks no deletion with orphans forever, and its objects are released when it does', async () => {
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
    // The collector that runs when the plugin is repaired: another process, later.
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

  test('an object of a kind that did not respond is released however late, also in a namespace', async () => {
    const Record = orphanRecordModel('setpoint.dev')
    const kinds = fixedKinds([Box, Toy, Record])
    const clock = new FakeClock()
    let isSilent = true
    const world = await collecting(
      kinds,
      between => {
        const watch = between.watch.bind(between)
        between.watch = (path, options) =>
          isSilent && path.includes('/toys')
            ? Promise.reject(new ApiError('ServiceUnavailable', 'the plugin has failed'))
            : watch(path, options)
      },
      clock,
    )
    const client = world.client.inNamespace('default')
    const box = await client.create(Box, { metadata: { name: 'box' }, spec: {} })
    const toy = await client.create(
      Toy,
      setOwnerReference(box, { metadata: { name: 'toy', namespace: 'default' }, spec: {} }),
    )
    world.manager.start()
    await client.delete(Box, 'box', { propagationPolicy: 'Orphan' })
    await eventuallyAsync(async () => {
      await clock.advance(1_000)
      return (await client.getIfExists(Box, 'box')) === undefined
    })
    await world.manager.stop()
    // The kind responds, but its object cannot be released yet.
    isSilent = false
    world.between.onRequest = async ({ method }) =>
      method === 'PATCH' ? refusal('InternalError') : undefined
    world.between.requests.length = 0
    const next = world.nextManager()
    next.add(new Collector({ kinds, clock }))
    await eventuallyAsync(async () => {
      await clock.advance(collectorDefaults.recordsMs)
      const { requests } = world.between
      return (
        requests.some(request => request.startsWith('PATCH')) &&
        requests.filter(request => /^GET .*orphanrecords$/.test(request)).length > 2
      )
    })
    await next.stop()
    world.between.onRequest = () => undefined
    world.nextManager().add(new Collector({ kinds, clock }))
    let left: ApiObject | undefined
    await eventuallyAsync(async () => {
      await clock.advance(1_000)
      left = await client.getIfExists(Toy, 'toy')
      return left?.metadata.ownerReferences === undefined
    })
    expect(left?.metadata.uid).toBe(toy.metadata.uid)
  })

  test('a dependent that cannot be deleted blocks no other, and is retried', async () => {
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

  test('requests without a response occupy only their own workers', async () => {
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

  test('any number of dependents is processed with a bounded number of requests', async () => {
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

test('a stopped collector sends no more requests', async () => {
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

/** A connection that delivers nothing while there is a gate. */
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

/** A connection with extra events. */
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
