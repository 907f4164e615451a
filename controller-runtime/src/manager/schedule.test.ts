import { Registry } from 'prom-client'
import { afterEach, describe, expect, test } from 'vitest'
import { MemoryServer } from '../../../test/support/sdk/memory-server.ts'
import { createClient } from '../client/create-client.ts'
import { TransportError } from '../client/transport.ts'
import { Lease } from '../kinds/lease.ts'
import { type Logger, silentLogger } from '../logger.ts'
import { RunnableMetrics } from '../metrics/runnable-metrics.ts'
import { systemRandom } from '../random.ts'
import type { RunnableContext } from '../runnable.ts'
import { FakeClock } from '../testing/fake-clock.ts'
import { Schedule } from './schedule.ts'
import { ScheduleRecord } from './schedule-record.ts'
import { readTimetable } from './timetable.ts'

const minuteMs = 60_000
const hourMs = 3_600_000
const name = 'schedule-demo--tick'

const cleanUps: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0)) await cleanUp()
})

/** A server with one record, for schedules in several processes. The clock starts at a full hour. */
class World {
  readonly server = new MemoryServer()
  readonly clock = new FakeClock(Date.UTC(2030, 0, 1))
  readonly client = createClient(this.server).inNamespace('setpoint-system')

  /** Starts the schedule as a leader does. Returns what it has run and how to end the leadership. */
  lead(
    expression: string,
    run: (context: RunnableContext) => Promise<void> | void = () => {},
    { clock = this.clock, log = silentLogger }: { clock?: FakeClock; log?: Logger } = {},
  ) {
    const { client } = this
    const registry = new Registry()
    const starts: string[] = []
    const schedule = new Schedule({
      name: 'demo/tick',
      timetable: readTimetable(expression),
      record: new ScheduleRecord({ client, clock, name, schedule: 'demo/tick' }),
      clock,
      log,
      metrics: new RunnableMetrics(registry),
      run(context) {
        starts.push(new Date(clock.now()).toISOString().slice(11, 19))
        return run(context)
      },
    })
    const stopping = new AbortController()
    const ended = schedule
      .run({ client, signal: stopping.signal, log, clock, random: systemRandom })
      .catch((error: unknown) => error)
    const stop = async () => {
      stopping.abort(new DOMException('leadership is lost', 'AbortError'))
      return ended
    }
    cleanUps.push(async () => void (await stop()))
    return {
      starts,
      stop,
      ended,
      async count(result: string): Promise<number> {
        const text = `setpoint_schedule_runs_total{schedule="demo/tick",result="${result}"} `
        const line = (await registry.metrics()).split('\n').find(each => each.startsWith(text))
        return Number(line?.slice(text.length))
      },
    }
  }
}

describe('a schedule', () => {
  test('runs at every due time, and not at its start', async () => {
    const world = new World()
    await world.clock.advance(90_000)
    const { starts, count } = world.lead('1m')
    await world.clock.advance(30_000)
    expect(starts).toEqual(['00:02:00'])
    await world.clock.advance(2 * minuteMs)
    expect(starts).toEqual(['00:02:00', '00:03:00', '00:04:00'])
    expect([await count('success'), await count('error'), await count('skipped')]).toEqual([3, 0, 0])
  })

  test('follows a cron expression in UTC', async () => {
    const world = new World()
    const { starts } = world.lead('30 6 * * *')
    await world.clock.advance(31 * hourMs)
    expect(starts).toEqual(['06:30:00', '06:30:00'])
  })

  test('skips and counts the due times of a run that goes on', async () => {
    const world = new World()
    let end = () => {}
    const running = () =>
      new Promise<void>(resolve => {
        end = resolve
      })
    const { starts, count } = world.lead('1m', running)
    await world.clock.advance(3.5 * minuteMs)
    expect(starts).toEqual(['00:01:00'])
    expect(await count('skipped')).toBe(2)
    end()
    await world.clock.advance(minuteMs)
    expect(starts).toEqual(['00:01:00', '00:04:00'])
    end()
  })

  test('logs and counts a run that fails, and goes on', async () => {
    const world = new World()
    const errors: object[] = []
    const log: Logger = { ...silentLogger, error: fields => void errors.push(fields) }
    const error = new Error('no luck')
    const { starts, count } = world.lead('1m', () => Promise.reject(error), { log })
    await world.clock.advance(2 * minuteMs)
    expect([starts.length, await count('error')]).toEqual([2, 2])
    expect(errors).toEqual([{ err: error }, { err: error }])
  })

  test('aborts the signal of its run when it stops, and waits for the run', async () => {
    const world = new World()
    const story: string[] = []
    let cleanUp = () => {}
    const { stop, count } = world.lead('1m', async ({ signal }) => {
      await new Promise(resolve => signal.addEventListener('abort', resolve))
      story.push(signal.reason.name)
      await new Promise<void>(resolve => {
        cleanUp = resolve
      })
      story.push('run ends')
      throw signal.reason
    })
    await world.clock.advance(minuteMs)
    const stopped = stop().then(() => story.push('schedule ends'))
    await world.clock.advance(minuteMs)
    cleanUp()
    await stopped
    expect(story).toEqual(['AbortError', 'run ends', 'schedule ends'])
    expect(await count('error')).toBe(0)
  })

  test('runs once after the process was suspended over several due times', async () => {
    const world = new World()
    const { starts } = world.lead('1m')
    await world.clock.advance(minuteMs)
    world.clock.stall(10.5 * minuteMs)
    await world.clock.advance(minuteMs)
    expect(starts).toEqual(['00:01:00', '00:11:30', '00:12:00'])
  })

  test('follows a wall clock that jumps, and repeats nothing when it jumps back', async () => {
    const world = new World()
    const { starts } = world.lead('1h')
    await world.clock.advance(hourMs)
    world.clock.jump(-20 * minuteMs)
    await world.clock.advance(21 * minuteMs)
    expect(starts).toEqual(['01:00:00'])
    world.clock.jump(58 * minuteMs)
    await world.clock.advance(2 * minuteMs)
    expect(starts).toEqual(['01:00:00', '02:00:00'])
  })

  test('goes on when a clock that was days ahead is set back', async () => {
    const world = new World()
    world.clock.jump(3 * 24 * hourMs)
    const { starts } = world.lead('1h')
    await world.clock.advance(hourMs)
    world.clock.jump(-3 * 24 * hourMs)
    await world.clock.advance(2 * hourMs)
    expect(starts).toEqual(['01:00:00', '02:00:00', '03:00:00'])
  })
})

describe('after a change of leader', () => {
  test('a run that was missed is made up for once, and no more', async () => {
    const world = new World()
    const first = world.lead('1h')
    await world.clock.advance(hourMs)
    await first.stop()
    await world.clock.advance(4.5 * hourMs)
    const second = world.lead('1h')
    await world.clock.advance(20 * minuteMs)
    expect(second.starts).toEqual(['05:30:00'])
    await world.clock.advance(10 * minuteMs)
    expect(second.starts).toEqual(['05:30:00', '06:00:00'])
  })

  test('a run that happened is not repeated, even if it was cut off', async () => {
    const world = new World()
    const first = world.lead('1h', ({ signal }) => {
      return new Promise(resolve => signal.addEventListener('abort', () => resolve()))
    })
    await world.clock.advance(hourMs)
    await first.stop()
    const second = world.lead('1h')
    await world.clock.advance(59 * minuteMs)
    expect(second.starts).toEqual([])
    await world.clock.advance(minuteMs)
    expect(second.starts).toEqual(['02:00:00'])
  })

  test('overlapping leaders run each due time once, also if their clocks differ by seconds', async () => {
    const world = new World()
    const early = new FakeClock(Date.UTC(2030, 0, 1, 0, 0, 3))
    const one = world.lead('1m')
    const two = world.lead('1m', undefined, { clock: early })
    for (let second = 0; second < 300; second++)
      for (const clock of [world.clock, early]) await clock.advance(1_000)
    expect(one.starts.length + two.starts.length).toBe(5)
  })

  test('a record from a clock that was days ahead does not stop the schedule', async () => {
    const world = new World()
    const wrong = world.lead('1h', undefined, { clock: new FakeClock(Date.UTC(2030, 0, 9)) })
    await world.clock.advance(0)
    await wrong.stop()
    const { starts } = world.lead('1h')
    await world.clock.advance(hourMs)
    expect(starts).toEqual(['01:00:00'])
    expect((await world.client.get(Lease, name)).spec).toEqual({
      holderIdentity: 'demo/tick',
      renewTime: '2030-01-01T01:00:00.000000Z',
    })
  })
})

describe('when its record', () => {
  test('cannot be written, it fails without a run, and a restart makes up for it', async () => {
    const world = new World()
    const first = world.lead('1h')
    await world.clock.advance(30 * minuteMs)
    world.server.onRequest = () => {
      throw new TransportError('the server is away')
    }
    await world.clock.advance(hourMs)
    expect(await first.ended).toBeInstanceOf(TransportError)
    expect(first.starts).toEqual([])
    world.server.onRequest = () => {}
    const { starts } = world.lead('1h')
    await world.clock.advance(0)
    expect(starts).toEqual(['01:30:00'])
  })

  test('was deleted, the next run happens', async () => {
    const world = new World()
    const { starts } = world.lead('1h')
    await world.clock.advance(30 * minuteMs)
    await world.client.delete(Lease, name)
    await world.clock.advance(30 * minuteMs)
    expect(starts).toEqual(['01:00:00'])
  })
})
