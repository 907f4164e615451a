import { afterEach, expect, test } from 'vitest'
import { eventually } from '../../../test/support/sdk/eventually.ts'
import { MemoryServer } from '../../../test/support/sdk/memory-server.ts'
import type { Client } from '../client/client.ts'
import { createClient } from '../client/create-client.ts'
import { Event } from '../kinds/event.ts'
import { silentLogger } from '../logger.ts'
import { systemRandom } from '../random.ts'
import { FakeClock } from '../testing/fake-clock.ts'
import { EventKeeper, type EventKeeperOptions, eventKeeperDefaults } from './event-keeper.ts'

const cleanUps: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0)) await cleanUp()
})

const { lifetimeMs, intervalMs, pauseMs } = eventKeeperDefaults

function setUp(options: Partial<EventKeeperOptions> = {}) {
  const server = new MemoryServer()
  const client = createClient(server)
  const clock = new FakeClock()
  const keeper = new EventKeeper({ clock, ...options })
  const abort = new AbortController()
  const running = keeper.run({
    ...{ client, clock, signal: abort.signal, log: silentLogger, random: systemRandom },
  })
  cleanUps.push(async () => {
    abort.abort()
    await running
  })
  const names = async () => (await client.list(Event)).items.map(({ metadata }) => metadata.name).sort()
  return { server, client, clock, names }
}

async function tell(client: Client, name: string, atMs: number, uid = 'one'): Promise<void> {
  const at = new Date(atMs).toISOString()
  const involvedObject = { apiVersion: 'v1', kind: 'K', name: 'k', uid }
  const times = { count: 1, firstTimestamp: at, lastTimestamp: at }
  const metadata = { name, namespace: 'default' }
  const event = { metadata, spec: undefined, involvedObject, type: 'Normal', reason: 'R', ...times }
  await client.create(Event, event)
}

/** Runs the keeper once more. */
async function look(clock: FakeClock): Promise<void> {
  for (const ms of [0, 0, 0, pauseMs, intervalMs, 0, 0, 0]) {
    await clock.advance(ms)
    await new Promise(setImmediate)
  }
}

test('an event is removed an hour after its last occurrence; a repeated one stays', async () => {
  const { client, clock, names } = setUp()
  await tell(client, 'old', clock.now())
  await tell(client, 'again', clock.now())
  await clock.advance(lifetimeMs - 10 * intervalMs)
  await look(clock)
  expect(await names()).toEqual(['again', 'old'])
  const later = new Date(clock.now()).toISOString()
  await client.patch(Event, 'default/again', [{ op: 'replace', path: '/lastTimestamp', value: later }])
  await clock.advance(10 * intervalMs)
  await look(clock)
  expect(await names()).toEqual(['again'])
})

test('the newest events of each object are kept', async () => {
  const { client, clock, names } = setUp({ perObject: 3 })
  for (let n = 0; n < 6; n++) await tell(client, `e${n}`, clock.now() - 10_000 + n)
  await tell(client, 'other', clock.now() - 20_000, 'two')
  await look(clock)
  expect(await names()).toEqual(['e3', 'e4', 'e5', 'other'])
})

test('too many events in total are removed at once, not after the interval', async () => {
  const { client, clock, names } = setUp({ inAll: 4 })
  for (let n = 0; n < 4; n++) await tell(client, `e${n}`, clock.now() + n, `uid${n}`)
  await clock.advance(0)
  await clock.advance(pauseMs)
  await tell(client, 'e4', clock.now() + 4, 'uid4')
  await eventually(() => clock.pendingTimers >= 1)
  for (let turn = 0; turn < 10; turn++) await clock.advance(0)
  expect(await names()).toEqual(['e1', 'e2', 'e3', 'e4'])
})

test('an implausible timestamp does not keep an event forever', async () => {
  const { client, clock, names } = setUp()
  await tell(client, 'future', Date.UTC(2999, 0, 1))
  await look(clock)
  expect(await names()).toEqual(['future'])
  await clock.advance(lifetimeMs)
  await look(clock)
  expect(await names()).toEqual([])
})

test('an event repeated between the check and the deletion stays', async () => {
  const { server, client, clock, names } = setUp()
  await tell(client, 'old', clock.now() - lifetimeMs)
  server.onRequest = async ({ method }) => {
    if (method !== 'DELETE') return
    server.onRequest = () => {}
    await client.patch(Event, 'default/old', [
      { op: 'replace', path: '/lastTimestamp', value: new Date(clock.now()).toISOString() },
    ])
  }
  await look(clock)
  await look(clock)
  expect(await names()).toEqual(['old'])
})
