import { afterEach, describe, expect, test } from 'vitest'
import { MemoryServer } from '../../../test/support/sdk/memory-server.ts'
import { gadget } from '../../../test/support/sdk/sample-models.ts'
import { ApiError } from '../api/errors.ts'
import { createClient } from '../client/create-client.ts'
import { TransportError } from '../client/transport.ts'
import { Event } from '../kinds/event.ts'
import { silentLogger } from '../logger.ts'
import { FakeClock } from '../testing/fake-clock.ts'
import { EventRecorder, eventRecorderDefaults } from './event-recorder.ts'

const cleanUps: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0)) await cleanUp()
})

const a = gadget('a', 5)

function setUp() {
  const server = new MemoryServer()
  const client = createClient(server)
  const clock = new FakeClock()
  const recorder = new EventRecorder({ client, reporter: 'demo', clock })
  cleanUps.push(() => recorder.close())
  const stored = async () => (await client.list(Event)).items
  const writes = () => server.requests.filter(request => !request.startsWith('GET')).length
  /** Runs everything that is due, and advances the time. */
  const pass = async (ms = 0) => {
    for (let turn = 0; turn < 10; turn++) await clock.advance(0)
    await clock.advance(ms)
    for (let turn = 0; turn < 10; turn++) await clock.advance(0)
  }
  return { server, client, clock, recorder, stored, writes, pass }
}

describe('an event', () => {
  test('has the object, what happened, when, and the reporter', async () => {
    const { recorder, stored, pass } = setUp()
    recorder.record(a, { type: 'Warning', reason: 'Unreachable', message: 'no answer' })
    await pass()
    expect(await stored()).toMatchObject([
      {
        metadata: { namespace: 'default', name: expect.stringMatching(/^a\.[0-9a-f]+$/) },
        involvedObject: {
          ...{ apiVersion: 'demo.example.com/v1', kind: 'Gadget', name: 'a', uid: 'uid-of-a' },
          resourceVersion: a.metadata.resourceVersion,
        },
        type: 'Warning',
        reason: 'Unreachable',
        message: 'no answer',
        source: { component: 'demo' },
        reportingComponent: 'demo',
        count: 1,
        firstTimestamp: '2030-01-01T00:00:00.000Z',
        lastTimestamp: '2030-01-01T00:00:00.000Z',
      },
    ])
  })

  test('is in the namespace of its object', async () => {
    const { recorder, stored, pass } = setUp()
    const inTeam = { ...a, metadata: { ...a.metadata, namespace: 'team' } }
    recorder.record(inTeam, { reason: 'Probed', message: 'x' })
    await pass()
    expect(await stored()).toMatchObject([
      { metadata: { namespace: 'team' }, involvedObject: { namespace: 'team', name: 'a' } },
    ])
  })

  test('recorded a thousand times is one object with a count, written at most every ten seconds', async () => {
    const { recorder, stored, writes, pass } = setUp()
    for (let second = 0; second < 100; second++) {
      for (let times = 0; times < 10; times++) {
        recorder.record(a, { reason: 'Probed', message: `in second ${second}` })
      }
      await pass(1_000)
    }
    await pass(10_000)
    const [event, ...others] = await stored()
    expect(others).toEqual([])
    expect(event).toMatchObject({
      count: 1_000,
      message: 'in second 99',
      firstTimestamp: '2030-01-01T00:00:00.000Z',
      lastTimestamp: '2030-01-01T00:01:39.000Z',
    })
    expect(writes()).toBeLessThanOrEqual(11)
  })

  test('recorded while it is being written is counted with the next write', async () => {
    const { server, recorder, stored, pass } = setUp()
    server.onAnswer = ({ method }) => {
      if (method !== 'POST') return
      recorder.record(a, { reason: 'Probed', message: 'y' })
      recorder.record(a, { reason: 'Probed', message: 'z' })
    }
    recorder.record(a, { reason: 'Probed', message: 'x' })
    await pass()
    expect(await stored()).toMatchObject([{ count: 1 }])
    await pass(eventRecorderDefaults.intervalMs)
    expect(await stored()).toMatchObject([{ count: 3, message: 'z' }])
  })

  test('is separate per object, uid, type, reason and reporter', async () => {
    const { client, clock, recorder, stored, pass } = setUp()
    const other = new EventRecorder({ client, reporter: 'other', clock })
    cleanUps.push(() => other.close())
    const event = { reason: 'Probed', message: 'x' }
    recorder.record(a, event)
    recorder.record(gadget('b', 5), event)
    recorder.record(gadget('a', 6, { uid: 'another' }), event)
    recorder.record(a, { ...event, type: 'Warning' })
    recorder.record(a, { ...event, reason: 'Failed' })
    other.record(a, event)
    await pass()
    expect((await stored()).map(({ count }) => count)).toEqual([1, 1, 1, 1, 1, 1])
  })

  test('is counted across processes of one reporter', async () => {
    const { client, clock, recorder, stored, pass } = setUp()
    const second = new EventRecorder({ client, reporter: 'demo', clock })
    cleanUps.push(() => second.close())
    recorder.record(a, { reason: 'Probed', message: 'x' })
    await pass()
    second.record(a, { reason: 'Probed', message: 'y' })
    await pass()
    expect(await stored()).toMatchObject([{ count: 2, message: 'y' }])
  })
})

describe('failures', () => {
  test.each([
    ['without a message', 'a', { reason: 'Probed' }, /message must be a string/],
    ['without a reason', 'a', { message: 'x' }, /reason must be a string/],
    [
      'with a misspelled key',
      'a',
      { reason: 'Probed', mesage: 'x' },
      /unknown key mesage in the event, did you mean message\?/,
    ],
    ['with an unknown key', 'a', { reason: 'Probed', message: 'x', at: 1 }, /unknown key at in the event/],
    ['that is a string', 'a', 'Probed', /must be an event/],
    ['about no object', undefined, { reason: 'Probed', message: 'x' }, /must be an object of the API/],
  ])('an event %s, from JavaScript, is logged and dropped', async (_, about, event, problem) => {
    const { client } = setUp()
    const warnings: string[] = []
    const log = { ...silentLogger, warn: (fields: object) => warnings.push(JSON.stringify(fields)) }
    const recorder = new EventRecorder({ client, reporter: 'demo', log })
    cleanUps.push(() => recorder.close())
    expect(Reflect.apply(recorder.record, recorder, [about && a, event])).toBeUndefined()
    expect(recorder.dropped).toBe(1)
    expect(warnings).toEqual([expect.stringMatching(problem)])
  })

  test('never reach the caller: temporary ones are retried, refused events are dropped', async () => {
    const { server, recorder, stored, pass } = setUp()
    let failures = 2
    server.onRequest = () => {
      if (failures-- > 0) throw new TransportError('away')
    }
    recorder.record(a, { reason: 'Probed', message: 'x' })
    await pass()
    await pass(60_000)
    expect(await stored()).toMatchObject([{ count: 1 }])
    server.onRequest = ({ method }) => {
      if (method !== 'GET') throw new ApiError('Forbidden', 'not for you')
    }
    recorder.record(a, { reason: 'Other', message: 'x' })
    await pass(60_000)
    expect(recorder.dropped).toBe(1)
    expect(await stored()).toHaveLength(1)
  })

  test('keep memory bounded while the server is away: events over the limit are dropped, and eventually all', async () => {
    const { server, recorder, pass } = setUp()
    server.onRequest = () => {
      throw new TransportError('away')
    }
    for (let n = 0; n < eventRecorderDefaults.limit + 5; n++) {
      recorder.record(gadget(`g${n}`, 1), { reason: 'Probed', message: 'x' })
    }
    expect(recorder.dropped).toBe(5)
    for (let round = 0; recorder.dropped < eventRecorderDefaults.limit + 5; round++) {
      expect(round).toBeLessThan(1_000)
      await pass(eventRecorderDefaults.backoffMaxMs)
    }
    expect(server.requests.length).toBeLessThanOrEqual(
      eventRecorderDefaults.limit * eventRecorderDefaults.attempts,
    )
  })

  test('close writes all pending events without pauses, or gives up soon', async () => {
    const { recorder, stored, pass } = setUp()
    recorder.record(a, { reason: 'Probed', message: 'x' })
    await pass()
    recorder.record(a, { reason: 'Probed', message: 'y' })
    recorder.record(gadget('b', 1), { reason: 'Probed', message: 'z' })
    await recorder.close()
    expect((await stored()).map(({ count }) => count)).toEqual([2, 1])
    recorder.record(a, { reason: 'Late', message: 'x' })
    await pass()
    expect(await stored()).toHaveLength(2)

    const away = setUp()
    away.server.onRequest = () => new Promise(() => {})
    away.recorder.record(a, { reason: 'Probed', message: 'x' })
    const closing = away.recorder.close(500)
    await away.pass(500)
    await closing
    expect(away.recorder.dropped).toBe(1)
  })

  test('a message that is too long is truncated', async () => {
    const { recorder, stored, pass } = setUp()
    recorder.record(a, { reason: 'Probed', message: 'x'.repeat(5_000) })
    await pass()
    expect((await stored())[0]?.message).toHaveLength(eventRecorderDefaults.messageLength)
  })
})
