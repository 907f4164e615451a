import {
  Event,
  getCondition,
  type Manager,
  Namespace,
  type NewObjectOf,
  until,
  waitFor,
} from '@setpoint/controller-runtime'
import { startTestServer, type TestServer } from '@setpoint/controller-runtime/testing'
import { Registry } from 'prom-client'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { DeadLetter, Subscription, type SubscriptionObject, webhooks } from './index.ts'
import { Desk, Item } from './testing/item.ts'
import { Receiver, testKey } from './testing/receiver.ts'

type Spec = NewObjectOf<SubscriptionObject>['spec']

const items = [{ apiVersion: 'items.example.com/v1', kind: 'Item' }]
const desks = [{ apiVersion: 'items.example.com/v1', kind: 'Desk' }]
const quick = { minSeconds: 0.1, maxSeconds: 0.1 }
const plugin = webhooks()

let receiver: Receiver
let server: TestServer
let client: TestServer['client']
let running: Manager

beforeEach(async () => {
  receiver = await Receiver.start()
  server = await startTestServer({
    plugins: [plugin],
    models: [Item, Desk],
    settings: { webhooks: { signingKeys: { main: testKey }, allowedNetworks: ['127.0.0.1/32'] } },
  })
  client = server.client
  running = await server.startPlugin(plugin)
})

afterEach(async () => {
  await receiver.stop()
  await server.close()
})

/** Creates the subscription `s` and waits until it watches. */
async function subscribe(spec: Partial<Spec> = {}): Promise<SubscriptionObject> {
  const { url } = receiver
  const complete = { kinds: items, url, signingKey: 'main', backoff: quick, ...spec }
  await client.create(Subscription, { metadata: { name: 's' }, spec: complete })
  const ready = await waitFor(client, Subscription, 's', until.condition('Ready'), { timeoutMs: 60_000 })
  if (ready === undefined) throw new Error('the subscription is gone')
  return ready
}

const create = (name: string, labels: Record<string, string> = {}) =>
  client.create(Item, { metadata: { name, labels }, spec: { n: 0 } })
const change = (name: string, n: number) => client.patch(Item, name, { spec: { n } })
const subscription = () => client.get(Subscription, 's')
const events = () => receiver.received.map(({ event, name }) => `${event} ${name}`)
const versions = (name: string) => receiver.about(name).map(({ version }) => String(version))
const condition = async (type: string) => getCondition((await subscription()).status?.conditions, type)
const reasons = async () => (await client.list(Event)).items.map(({ reason }) => reason)
const letters = async () => (await client.list(DeadLetter)).items

/** The subscription is written at most once a second, so changes of its status take that long. */
const poll = <T>(look: () => T) => expect.poll(look, { timeout: 60_000 })

describe('a subscription', () => {
  test('delivers every change with its object', async () => {
    await subscribe()
    const created = await create('a')
    const changed = await change('a', 1)
    const deleted = await client.delete(Item, 'a')
    await poll(events).toEqual(['added a', 'modified a', 'deleted a'])
    const [first] = receiver.received
    const { version, uid } = created.metadata
    expect(JSON.parse(first?.body ?? '')).toEqual({
      type: 'Item.added',
      data: {
        ...{ subscription: 's', event: 'added', apiVersion: 'items.example.com/v1', kind: 'Item' },
        ...{ name: 'a', uid, version, object: created },
      },
    })
    expect(versions('a').slice(1, 2)).toEqual([changed.metadata.version])
    expect(deleted?.spec).toEqual({ n: 1 })
    expect(new Set(receiver.received.map(({ id }) => id)).size).toBe(3)
    expect(receiver.refused).toEqual([])
  })

  test('delivers only what its selectors match', async () => {
    await subscribe({ kinds: items.map(kind => ({ ...kind, labelSelector: 'team=web' })) })
    await create('other')
    await create('mine', { team: 'web' })
    await client.patch(Item, 'mine', { metadata: { labels: { team: 'db' } } })
    await poll(events).toEqual(['added mine', 'deleted mine'])
  })

  test('stores how far it has come, and never further than what is settled', async () => {
    let hold = true
    receiver.answer = ({ name }) => (hold && name === 'held' ? 503 : 200)
    await subscribe()
    const { metadata } = await create('held')
    await create('free')
    await poll(events).toEqual(['added free'])
    await poll(async () => (await subscription()).status?.delivered).toBe(1)
    const { status } = await subscription()
    expect(status?.cursors).toEqual([
      { apiVersion: 'items.example.com/v1', plural: 'items', version: String(BigInt(metadata.version) - 1n) },
    ])
    expect(status?.pending).toBe(1)
    hold = false
    await poll(events).toEqual(['added free', 'added held'])
    await poll(async () => (await subscription()).status?.pending).toBe(0)
    const [cursor] = (await subscription()).status?.cursors ?? []
    expect(BigInt(cursor?.version ?? 0)).toBeGreaterThan(BigInt(metadata.version))
  })

  test('without its signing key sends nothing, and says so', async () => {
    const spec = { kinds: items, url: receiver.url, signingKey: 'missing' }
    await client.create(Subscription, { metadata: { name: 's' }, spec })
    await poll(() => condition('Ready')).toMatchObject({ status: 'False', reason: 'SigningKeyMissing' })
    // The subscription `t` begins later and has delivered the change.
    await create('a')
    await client.create(Subscription, {
      metadata: { name: 't' },
      spec: { ...spec, signingKey: 'main', replay: { fromVersion: '0' } },
    })
    await poll(events).toEqual(['resync a', 'resynced '])
  })

  test('of a kind that is not served says so', async () => {
    const kinds = [...items, { apiVersion: 'none.example.com/v1', kind: 'Nothing' }]
    await client.create(Subscription, {
      metadata: { name: 's' },
      spec: { kinds, url: receiver.url, signingKey: 'main' },
    })
    await poll(() => condition('Ready')).toMatchObject({ status: 'False', reason: 'WatchFailed' })
    expect((await condition('Ready'))?.message).toContain('nothings.none.example.com/v1')
    await create('a')
    await poll(events).toEqual(['added a'])
  })

  test('that changes continues with the next change', async () => {
    await subscribe()
    await create('a')
    await poll(events).toEqual(['added a'])
    await client.patch(Subscription, 's', { spec: { url: `${receiver.url}second` } })
    await create('b')
    await poll(() => receiver.about('b').map(({ path }) => path)).toEqual(['/second'])
  })

  test('that another process has moved starts over from there', async () => {
    const { metadata } = await subscribe()
    const created = await create('a')
    await poll(async () => (await subscription()).status?.delivered).toBe(1)
    const cursors = [{ apiVersion: 'items.example.com/v1', plural: 'items', version: metadata.version }]
    await client.patchStatus(Subscription, 's', { cursors })
    const next = await create('b')
    await poll(() => receiver.about('a').length).toBe(2)
    expect(new Set(versions('a'))).toEqual(new Set([created.metadata.version]))
    expect(versions('b')).toContain(next.metadata.version)
  })

  test('continues after a restart where it was', async () => {
    await subscribe()
    await create('a')
    await running.stop()
    await change('a', 1)
    await client.delete(Item, 'a')
    await server.startPlugin(plugin)
    await poll(() => [...new Set(events())]).toEqual(['added a', 'modified a', 'deleted a'])
  })
})

describe('a subscription to a namespaced kind', () => {
  const inNamespace = (namespace: string) => client.inNamespace(namespace)
  const createDesk = (namespace: string, name: string) =>
    inNamespace(namespace).create(Desk, { metadata: { name }, spec: { n: 0 } })
  const keyed = () => receiver.received.map(({ event, namespace, name }) => `${event} ${namespace}/${name}`)

  beforeEach(async () => {
    for (const name of ['a', 'b']) await client.create(Namespace, { metadata: { name } })
  })

  test('delivers the changes of all namespaces, with the namespace', async () => {
    await subscribe({ kinds: desks })
    const { metadata } = await createDesk('a', 'x')
    await createDesk('b', 'x')
    await client.delete(Desk, 'a/x')
    await poll(() => keyed().length).toBe(3)
    expect(keyed().sort()).toEqual(['added a/x', 'added b/x', 'deleted a/x'])
    const { data } = JSON.parse(receiver.received.find(({ uid }) => uid === metadata.uid)?.body ?? '')
    expect(data).toMatchObject({ kind: 'Desk', namespace: 'a', name: 'x', object: { metadata } })
  })

  test('delivers those of one namespace with a field selector', async () => {
    await subscribe({ kinds: desks.map(kind => ({ ...kind, fieldSelector: 'metadata.namespace=b' })) })
    await createDesk('a', 'x')
    await createDesk('b', 'x')
    await poll(keyed).toEqual(['added b/x'])
  })

  test('does not hold up an object by that of the same name in another namespace', async () => {
    receiver.answer = ({ namespace }) => (namespace === 'a' ? 500 : 200)
    await subscribe({ kinds: desks, maxAttempts: 1000 })
    await createDesk('a', 'x')
    await createDesk('b', 'x')
    await inNamespace('b').patch(Desk, 'x', { spec: { n: 1 } })
    await poll(keyed).toEqual(['added b/x', 'modified b/x'])
    await poll(async () => (await subscription()).status?.pending).toBe(1)
  })

  test('names the namespace in dead letters and errors', async () => {
    receiver.answer = () => 500
    await subscribe({ kinds: desks, maxAttempts: 1 })
    await createDesk('a', 'x')
    await createDesk('b', 'x')
    await poll(async () => (await letters()).length).toBe(2)
    const { items } = await client.list(DeadLetter, { sort: 'spec.object' })
    expect(items.map(({ spec }) => spec.object)).toEqual(['Desk a/x', 'Desk b/x'])
    await poll(async () => (await subscription()).status?.lastError?.object).toMatch(/^Desk [ab]\/x$/)
  })

  test('resyncs objects of the same name under ids of their own', async () => {
    await createDesk('a', 'x')
    await createDesk('b', 'x')
    await subscribe({ kinds: desks, replay: { fromVersion: '0' } })
    await poll(() => keyed().length).toBe(3)
    expect(keyed().slice(0, 2).sort()).toEqual(['resync a/x', 'resync b/x'])
    expect(new Set(receiver.received.map(({ id }) => id)).size).toBe(3)
  })
})

test('a subscription to a kind of the core group delivers its changes', async () => {
  await subscribe({ kinds: [{ apiVersion: 'v1', kind: 'Namespace' }] })
  const { metadata } = await client.create(Namespace, { metadata: { name: 'a' } })
  await poll(() => receiver.about('a').length).toBeGreaterThan(0)
  const { type, data } = JSON.parse(receiver.about('a')[0]?.body ?? '')
  expect([type, data.apiVersion, data.uid]).toEqual(['Namespace.added', 'v1', metadata.uid])
  const { status } = await subscription()
  expect(status?.cursors).toMatchObject([{ apiVersion: 'v1', plural: 'namespaces' }])
})

describe('failing deliveries', () => {
  test('are retried in order for each object, and delay no other object', async () => {
    let refused = 0
    receiver.answer = ({ name }) => (name === 'a' && ++refused <= 3 ? 500 : 200)
    await subscribe()
    await create('a')
    await change('a', 1)
    await create('b')
    await poll(events).toEqual(['added b', 'added a', 'modified a'])
  })

  test('are visible in the conditions and events, and so is the recovery', async () => {
    await subscribe()
    await receiver.stop()
    await create('a')
    await poll(() => condition('Delivering')).toMatchObject({ status: 'False', reason: 'Retrying' })
    expect((await subscription()).status?.lastError).toMatchObject({
      message: 'connection refused',
      object: 'Item a',
    })
    await poll(reasons).toContain('DeliveryFailed')
    await receiver.listen()
    await poll(() => condition('Delivering')).toMatchObject({ status: 'True' })
    expect(events()).toEqual(['added a'])
  })

  test('become dead letters, which can be retried', async () => {
    let accepts = false
    receiver.answer = ({ event }) => (accepts || event !== 'added' ? 200 : 500)
    await subscribe({ maxAttempts: 2 })
    const created = await create('a')
    await change('a', 1)
    await poll(events).toEqual(['modified a'])
    const [letter] = await letters()
    expect(letter?.spec).toMatchObject({
      ...{
        subscription: 's',
        object: 'Item a',
        version: created.metadata.version,
        attempts: 2,
        retry: false,
      },
      reason: 'the receiver responded with 500',
    })
    const name = letter?.metadata.name ?? ''
    await client.patch(DeadLetter, name, { spec: { retry: true } })
    await waitFor(client, DeadLetter, name, each => each?.status?.retries === 2, { timeoutMs: 60_000 })
    accepts = true
    await waitFor(client, DeadLetter, name, until.deleted(), { timeoutMs: 60_000 })
    expect(events()).toEqual(['modified a', 'added a'])
    expect(receiver.received[1]?.id).toBe(letter?.spec.id)
    await poll(reasons).toContain('DeadLetter')
  })

  test('are not sent once their dead letter is being deleted', async () => {
    let accepts = false
    receiver.answer = () => (accepts ? 200 : 500)
    await subscribe({ maxAttempts: 1 })
    await create('a')
    await create('b')
    await poll(async () => (await letters()).length).toBe(2)
    accepts = true
    const letterOf = async (object: string) =>
      (await letters()).find(({ spec }) => spec.object === object)?.metadata.name ?? ''
    const [dropped, sent] = [await letterOf('Item a'), await letterOf('Item b')]
    await client.patch(DeadLetter, dropped, { metadata: { finalizers: ['example.com/keep'] } })
    await client.delete(DeadLetter, dropped)
    for (const name of [dropped, sent]) await client.patch(DeadLetter, name, { spec: { retry: true } })
    await waitFor(client, DeadLetter, sent, until.deleted(), { timeoutMs: 60_000 })
    expect(events()).toEqual(['added b'])
  })

  test('are signed again only if the plugin has made them', async () => {
    receiver.answer = () => 500
    await subscribe({ maxAttempts: 1 })
    await create('a')
    await poll(async () => (await letters()).length).toBe(1)
    const [made] = await letters()
    if (made === undefined) throw new Error('there is no letter')
    receiver.answer = () => 200
    const forged = { ...made.spec, payload: { type: 'Item.added', data: { name: 'forged' } }, retry: true }
    const elsewhere = { ...made.spec, subscription: 'other', retry: true }
    await client.create(Subscription, {
      metadata: { name: 'other' },
      spec: { kinds: desks, url: receiver.url, signingKey: 'main' },
    })
    await client.create(DeadLetter, { metadata: { name: 'forged' }, spec: forged })
    await client.create(DeadLetter, { metadata: { name: 'elsewhere' }, spec: elsewhere })
    for (const name of ['forged', 'elsewhere'])
      await poll(async () =>
        getCondition((await client.get(DeadLetter, name)).status?.conditions, 'Delivered'),
      ).toMatchObject({ status: 'False', reason: 'NotSealed' })
    expect(receiver.received).toEqual([])
    await client.patch(DeadLetter, made.metadata.name, { spec: { retry: true } })
    await poll(events).toEqual(['added a'])
  })

  test('that are too large for an object become dead letters without their message', async () => {
    receiver.answer = () => 500
    await subscribe({ maxAttempts: 1 })
    // The largest object has 1,500,000 bytes; the dead letter would have some hundred more.
    const text = 'x'.repeat(1_499_400)
    await client.create(Item, { metadata: { name: 'a' }, spec: { n: 0, ...{ text } } })
    await poll(async () => (await letters()).length).toBe(1)
    const [letter] = await letters()
    expect(letter?.spec).toMatchObject({ object: 'Item a', attempts: 1 })
    expect(letter?.spec.payload).toBeUndefined()
    const name = letter?.metadata.name ?? ''
    await client.patch(DeadLetter, name, { spec: { retry: true } })
    const delivered = async () =>
      getCondition((await client.get(DeadLetter, name)).status?.conditions, 'Delivered')
    await poll(delivered).toMatchObject({ status: 'False', reason: 'NoPayload' })
  })

  test('are counted, until the subscription is gone', async () => {
    await running.stop()
    const registry = new Registry()
    running = await server.startPlugin(plugin, { registry })
    await subscribe({ maxAttempts: 1 })
    await receiver.stop()
    await create('a')
    await poll(async () => (await letters()).length).toBe(1)
    const metrics = () => registry.metrics()
    await poll(metrics).toContain('plugin_webhooks_dead_letters_total{subscription="s"} 1')
    expect(await metrics()).toContain('plugin_webhooks_attempts_total{subscription="s",result="failure"} 1')
    expect(await metrics()).toContain('plugin_webhooks_pending_deliveries{subscription="s"} 0')
    await client.delete(Subscription, 's')
    await poll(metrics).not.toContain('subscription="s"')
  })

  test('beyond the bound of dead letters are retried, and not lost', async () => {
    let accepts = false
    receiver.answer = () => (accepts ? 200 : 500)
    await subscribe({ maxAttempts: 1, maxDeadLetters: 1 })
    await create('a')
    await poll(async () => (await letters()).length).toBe(1)
    await create('b')
    await poll(() => condition('Delivering')).toMatchObject({ status: 'False', reason: 'DeadLettersFull' })
    accepts = true
    await poll(events).toEqual(['added b'])
    expect(await letters()).toHaveLength(1)
  })

  test('of a receiver that does not respond delay no other receiver', async () => {
    const other = await Receiver.start()
    receiver.answer = () => new Promise(() => {})
    await subscribe()
    await client.create(Subscription, {
      metadata: { name: 't' },
      spec: { kinds: items, url: other.url, signingKey: 'main' },
    })
    await waitFor(client, Subscription, 't', until.condition('Ready'), { timeoutMs: 60_000 })
    for (let n = 0; n < 100; n++) await create(`o${n}`)
    await poll(() => other.received.length).toBe(100)
    expect(receiver.received).toEqual([])
    await other.stop()
  })
})

describe('replay', () => {
  test('delivers the changes after a version again, with the same ids', async () => {
    const { metadata } = await subscribe()
    await create('a')
    await change('a', 1)
    await poll(events).toEqual(['added a', 'modified a'])
    const replay = { fromVersion: metadata.version }
    await client.patch(Subscription, 's', { spec: { replay } })
    await poll(events).toEqual(['added a', 'modified a', 'added a', 'modified a'])
    const ids = receiver.received.map(({ id }) => id)
    expect(ids.slice(2)).toEqual(ids.slice(0, 2))
    // The same version once more needs another token.
    await client.patch(Subscription, 's', { spec: { replay: { ...replay, token: 'again' } } })
    await poll(() => events().length).toBe(6)
    await poll(async () => (await subscription()).status?.replayed).toEqual({ ...replay, token: 'again' })
  })

  test('from 0 delivers the current state, and says when it is complete', async () => {
    await create('a')
    await create('b')
    await subscribe({ replay: { fromVersion: '0' } })
    await poll(() => events().length).toBe(3)
    expect(events().slice(0, 2).sort()).toEqual(['resync a', 'resync b'])
    const resyncs = new Set(receiver.received.map(({ resync }) => resync))
    expect([events()[2], resyncs.size]).toEqual(['resynced ', 1])
    await create('c')
    await poll(events).toContain('added c')
  })

  test('of a version that cannot be read delivers the current state instead', async () => {
    await create('a')
    await subscribe()
    await client.patch(Subscription, 's', { spec: { replay: { fromVersion: '999999999' } } })
    await poll(events).toEqual(['resync a', 'resynced '])
    await change('a', 1)
    await poll(events).toEqual(['resync a', 'resynced ', 'modified a'])
    await poll(reasons).toContain('Resync')
  })
})

describe('a deleted subscription', () => {
  test('delivers the changes before its deletion first', async () => {
    await subscribe()
    await receiver.stop()
    for (let n = 0; n < 20; n++) await create(`o${n}`)
    await client.delete(Subscription, 's')
    await change('o0', 1)
    await receiver.listen()
    await waitFor(client, Subscription, 's', until.deleted(), { timeoutMs: 120_000 })
    expect(events().filter(event => event.startsWith('added'))).toHaveLength(20)
  })

  test('goes after its time, with its dead letters, if the receiver is down', async () => {
    await subscribe({ drainSeconds: 3, maxAttempts: 1, maxDeadLetters: 1 })
    await receiver.stop()
    await create('a')
    await poll(async () => (await letters()).length).toBe(1)
    await create('b')
    await client.delete(Subscription, 's')
    await waitFor(client, Subscription, 's', until.deleted(), { timeoutMs: 120_000 })
    await poll(reasons).toContain('Undelivered')
    await poll(async () => (await letters()).length).toBe(0)
  })

  test('makes no dead letters, which would go with it', async () => {
    let attempts = 0
    receiver.answer = () => {
      attempts++
      return new Promise(() => {})
    }
    await subscribe({ drainSeconds: 4, maxAttempts: 1 })
    await create('a')
    // The first attempt is under way, and gets no answer.
    await poll(() => attempts).toBe(1)
    await client.delete(Subscription, 's')
    receiver.answer = () => 500
    await waitFor(client, Subscription, 's', until.deleted(), { timeoutMs: 120_000 })
    await poll(reasons).toContain('Undelivered')
    expect(await reasons()).not.toContain('DeadLetter')
  })
})

describe('the spec', () => {
  const invalid: [string, Partial<Spec>, string][] = [
    ['a URL with a password', { url: 'http://u:p@example.com/' }, 'spec.url'],
    ['another scheme', { url: 'ftp://example.com/' }, 'spec.url'],
    ['no kind', { kinds: [] }, 'spec.kinds'],
    ['a group alone', { kinds: [{ apiVersion: 'items', kind: 'Item' }] }, 'spec.kinds[0].apiVersion'],
    [
      'a kind of the core group twice',
      { kinds: [1, 2].map(n => ({ apiVersion: 'v1', kind: `Name${n}`, plural: 'names' })) },
      'spec.kinds[1]',
    ],
    [
      'its own kind',
      { kinds: [{ apiVersion: 'webhooks.example.com/v1alpha1', kind: 'DeadLetter' }] },
      'spec.kinds[0].apiVersion',
    ],
    [
      'a kind twice',
      { kinds: [...items, { apiVersion: 'items.example.com/v2', kind: 'Item' }] },
      'spec.kinds[1]',
    ],
    ['crossed bounds', { backoff: { minSeconds: 5, maxSeconds: 1 } }, 'spec.backoff.maxSeconds'],
    ['a version that is none', { replay: { fromVersion: '1.5' } }, 'spec.replay.fromVersion'],
  ]

  test.each(invalid)('with %s is refused', async (_, part, field) => {
    const spec = { kinds: items, url: 'https://example.com/', signingKey: 'main', ...part }
    const error = await client.create(Subscription, { metadata: { name: 's' }, spec }).catch(each => each)
    expect(error).toMatchObject({ reason: 'Invalid' })
    expect(error.details.causes.map((cause: { field: string }) => cause.field)).toContain(field)
  })

  test('is completed', async () => {
    const spec = { kinds: items, url: 'https://example.com/', signingKey: 'missing' }
    const { spec: stored } = await client.create(Subscription, { metadata: { name: 's' }, spec })
    expect(stored.kinds).toEqual([{ ...items[0], plural: 'items' }])
    expect(stored.backoff).toEqual({ minSeconds: 1, maxSeconds: 300 })
  })
})
