import { afterEach, describe, expect, test } from 'vitest'
import { eventually } from '../../../test/support/sdk/eventually.ts'
import { bookmark, Gadget } from '../../../test/support/sdk/sample-models.ts'
import { ScriptedWatchServer, type WatchScript } from '../../../test/support/sdk/scripted-watch-server.ts'
import { added, expired, initial, modified, next, watched } from '../../../test/support/sdk/watched.ts'
import { ApiError } from '../api/errors.ts'
import { createClient } from '../client/create-client.ts'
import { HttpTransport, httpTransportDefaults } from '../client/http-transport.ts'
import { TransportError } from '../client/transport.ts'
import { type Logger, silentLogger } from '../logger.ts'
import { FakeClock } from '../testing/fake-clock.ts'
import { Watcher, watcherDefaults } from './watcher.ts'

/** Faults of servers and networks over real sockets, with a fake clock for the watcher. */

const cleanUps: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp()
})

async function setUp(...arguments_: Parameters<typeof watched>) {
  const set = await watched(...arguments_)
  cleanUps.push(() => set[Symbol.asyncDispose]())
  return set
}

/** Waits until the only pending timer is a pause, lets it pass, and returns its length in ms. */
async function passPause(clock: FakeClock): Promise<number> {
  await eventually(() => clock.pendingTimers === 1)
  const pauseMs = clock.nextTimerInMs ?? Number.NaN
  await clock.advance(pauseMs)
  return pauseMs
}

/** Waits until the reader has read all frames: frames are read in order, and a pong comes last. */
async function read({ watches: [watch] }: ScriptedWatchServer): Promise<void> {
  watch?.ping()
  await eventually(() => watch?.pongs === 1)
  await new Promise(setImmediate)
}

const versions = (server: ScriptedWatchServer) => server.attempts.map(url => url.searchParams.get('version'))
const refusal = (status: number, seconds?: number) => ({
  status,
  ...(seconds !== undefined && { headers: { 'retry-after': String(seconds) } }),
})

describe('dead or slow connections', () => {
  test('a watch without any frame, not even a ping, is closed and reopened', async () => {
    const clock = new FakeClock()
    const { server, events } = await setUp([() => {}, initial], {}, { clock })
    const told = next(events, 1)
    // One timer: the inactivity timer of the connection.
    await eventually(() => clock.pendingTimers === 1)
    await clock.advance(httpTransportDefaults.watchIdleTimeoutMs - 1)
    expect(server.watches).toHaveLength(1)
    await clock.advance(1)
    expect(await told).toEqual(['replaced a@5,b@3 v7'])
    expect(server.watches).toHaveLength(2)
  })

  test('a half-open connection is detected by its silence, and pings keep a quiet one open', async () => {
    const clock = new FakeClock()
    const { server, events } = await setUp([initial, watch => watch.send(modified('a', 8))], {}, { clock })
    await next(events, 1)
    const [watch] = server.watches
    for (let pings = 1; pings <= 5; pings++) {
      await clock.advance(httpTransportDefaults.watchIdleTimeoutMs - 1)
      watch?.ping()
      await eventually(() => watch?.pongs === pings)
    }
    expect(server.attempts).toHaveLength(1)
    // Silent from here on, without a FIN.
    await clock.advance(httpTransportDefaults.watchIdleTimeoutMs)
    expect(await next(events, 1)).toEqual(['applied a v8'])
    expect(server.watches.map(each => each.version)).toEqual([null, '7'])
  })

  test('pings are answered while the reader is busy with one event', async () => {
    const { server, events } = await setUp([initial, () => {}])
    await next(events, 1)
    // The reader has not called next() again.
    const [watch] = server.watches
    for (let pings = 1; pings <= 10; pings++) {
      watch?.ping()
      await eventually(() => watch?.pongs === pings)
    }
    watch?.send(modified('a', 8))
    expect(await next(events, 1)).toEqual(['applied a v8'])
    expect(server.attempts).toHaveLength(1)
  })

  test('initial events that stall log a warning, then the list starts again', async () => {
    const clock = new FakeClock()
    const warnings: string[] = []
    const log: Logger = {
      ...silentLogger,
      warn: (_fields, message) => void warnings.push(message),
      child: () => log,
    }
    const { server, events } = await setUp([watch => watch.send(added('ghost', 2)), initial], { clock, log })
    const told = next(events, 1)
    await eventually(() => server.watches.length === 1 && clock.pendingTimers === 2)
    await read(server)
    await clock.advance(watcherDefaults.slowListWarningMs)
    expect(warnings).toEqual(['initial events have not ended yet'])
    await clock.advance(watcherDefaults.stalledListMs)
    await passPause(clock)
    expect(await told).toEqual(['replaced a@5,b@3 v7'])
    expect(versions(server)).toEqual([null, null])
  })

  test('slow initial events are awaited for any time', async () => {
    const clock = new FakeClock()
    const { server, watcher, events } = await setUp([() => {}], { clock })
    const told = next(events, 1)
    await eventually(() => server.watches.length === 1 && clock.pendingTimers === 2)
    for (let version = 1; version <= 5; version++) {
      await clock.advance(watcherDefaults.stalledListMs - 1)
      server.watches[0]?.send(added(`g${version}`, version))
      // Frames are read in order: after the pong, the event has been read.
      server.watches[0]?.ping()
      await eventually(() => server.watches[0]?.pongs === version)
      await new Promise(setImmediate)
    }
    server.watches[0]?.send(bookmark(7, true))
    expect(await told).toEqual(['replaced g1@1,g2@2,g3@3,g4@4,g5@5 v7'])
    expect(watcher.counts.opened).toBe(1)
  })
})

describe('410', () => {
  test('a 410 in reply to a list is retried until the list succeeds', async () => {
    const { server, events } = await setUp([
      watch => {
        initial(watch)
        watch.cut()
      },
      { status: 410 },
      { status: 410, body: new ApiError('Expired', 'too old').toStatus() },
      watch => watch.send(expired),
      watch => watch.close(4410),
      watch => watch.send(bookmark(40, true)),
    ])
    expect(await next(events, 2)).toEqual(['replaced a@5,b@3 v7', 'replaced  v40'])
    // Without a version: the most recent state, not the one of a cache.
    expect(versions(server)).toEqual([null, '7', null, null, null, null])
  })

  test('a 410 for a version that the server has not reached, after a restore, reports the restored state', async () => {
    const past: WatchScript = watch => {
      if (watch.version !== null) {
        watch.send(expired)
        return
      }
      watch.send(added('a', 3))
      watch.send(bookmark(4, true))
      watch.send(modified('a', 5))
    }
    const { server, events } = await setUp([
      watch => {
        initial(watch)
        watch.send(bookmark(900))
        watch.close(1001)
      },
      past,
    ])
    expect(await next(events, 4)).toEqual([
      'replaced a@5,b@3 v7',
      'bookmark v900',
      'replaced a@3 v4',
      'applied a v5',
    ])
    expect(versions(server)).toEqual([null, '900', null])
  })

  test('a quiet kind that only receives bookmarks survives compaction without a new list', async () => {
    const compactedAt20: WatchScript = watch => {
      if (Number(watch.version) < 20) watch.send(expired)
      else watch.send(modified('a', 22))
    }
    const { events } = await setUp([
      watch => {
        initial(watch)
        watch.send(bookmark(15))
        watch.send(bookmark(20))
        watch.close(1011)
      },
      compactedAt20,
    ])
    expect(await next(events, 4)).toEqual([
      'replaced a@5,b@3 v7',
      'bookmark v15',
      'bookmark v20',
      'applied a v22',
    ])
  })
})

describe('undecodable frames', () => {
  test('a bad frame that returns after every resumption is skipped by a new list', async () => {
    const { server, watcher, events } = await setUp([
      initial,
      watch => {
        if (watch.version !== null) watch.sendRaw('{"type":"RENAMED"}')
        else {
          watch.send(added('a', 5))
          watch.send(bookmark(9, true))
        }
      },
    ])
    expect(await next(events, 1)).toEqual(['replaced a@5,b@3 v7'])
    server.watches[0]?.sendRaw('{"type":"RENAMED"}')
    expect(await next(events, 1)).toEqual(['replaced a@5 v9'])
    expect(versions(server)).toEqual([null, '7', null])
    expect(watcher.counts.malformed).toBe(2)
  })
})

describe('pauses', () => {
  const live: WatchScript = watch => {
    initial(watch)
    watch.close(1011)
  }

  test.each([429, 503])(
    'after %i, wait at least Retry-After with jitter, without a new list',
    async status => {
      const pauses = new Set<number>()
      for (const random of [0, 0.25, 0.75]) {
        const clock = new FakeClock()
        const { server, events } = await setUp(
          [live, refusal(status, 5), watch => watch.send(modified('a', 8))],
          { clock, random: () => random, backoffBaseMs: 800 },
        )
        const told = next(events, 2)
        await passPause(clock)
        pauses.add(await passPause(clock))
        expect(await told).toEqual(['replaced a@5,b@3 v7', 'applied a v8'])
        expect(versions(server)).toEqual([null, '7', '7'])
      }
      expect([...pauses]).toEqual([5_000, 5_200, 5_600])
    },
  )

  /** A watcher that always fails with the error, and the warnings that it logs. */
  function refused(error: Error) {
    const clock = new FakeClock()
    const warnings: string[] = []
    const log: Logger = {
      ...silentLogger,
      warn: (_fields, message) => void warnings.push(message),
      child: () => log,
    }
    const pauses = { backoffBaseMs: 1_000, backoffMaxMs: 1_000 }
    const watcher = new Watcher({ watch: () => Promise.reject(error) }, Gadget, { clock, log, ...pauses })
    const abort = new AbortController()
    return { warnings, clock, abort, ended: watcher.events(abort.signal).next() }
  }

  test.each([
    new ApiError('ServiceUnavailable', 'its indexes are being built'),
    new TransportError('connect ECONNREFUSED'),
  ])('an unreachable or starting server logs a warning only after a while: %s', async error => {
    const { warnings, clock, abort, ended } = refused(error)
    while (clock.monotonic() + 1_000 < watcherDefaults.awayWarningMs) await passPause(clock)
    expect(warnings).toEqual([])
    await passPause(clock)
    while (clock.monotonic() < watcherDefaults.awayWarningMs) await passPause(clock)
    await eventually(() => clock.pendingTimers === 1)
    expect(warnings).toEqual(['watch failed, reopening'])
    abort.abort()
    expect(await ended).toEqual({ done: true, value: undefined })
  })

  test('grow to two seconds only while the server cannot be reached, and start over when it responds', async () => {
    const clock = new FakeClock()
    const starting = new ApiError('ServiceUnavailable', 'its indexes are being built')
    let error: Error = new TransportError('connect ECONNREFUSED')
    const options = { clock, random: () => 0.5, backoffBaseMs: 800, backoffMaxMs: 30_000 }
    const watcher = new Watcher({ watch: () => Promise.reject(error) }, Gadget, options)
    const abort = new AbortController()
    const ended = watcher.events(abort.signal).next()
    const pauses: number[] = []
    for (let attempt = 0; attempt < 6; attempt++) pauses.push(await passPause(clock))
    expect(pauses).toEqual([400, 800, 1_000, 1_000, 1_000, 1_000])
    error = starting
    pauses.length = 0
    // The attempt that started before the server was back.
    await passPause(clock)
    for (let attempt = 0; attempt < 3; attempt++) pauses.push(await passPause(clock))
    expect(pauses).toEqual([400, 800, 1_600])
    abort.abort()
    await ended
  })

  test('a lasting refusal logs a warning at once, and one a minute', async () => {
    const { warnings, clock, abort, ended } = refused(new ApiError('Forbidden', 'you may not'))
    await eventually(() => clock.pendingTimers === 1)
    expect(warnings).toEqual(['watch failed, reopening'])
    while (clock.monotonic() + 1_000 < watcherDefaults.repeatedWarningMs) await passPause(clock)
    expect(warnings).toHaveLength(1)
    await passPause(clock)
    while (clock.monotonic() < watcherDefaults.repeatedWarningMs) await passPause(clock)
    await eventually(() => clock.pendingTimers === 1)
    expect(warnings).toHaveLength(2)
    abort.abort()
    await ended
  })

  test('grow while watches close at once, and start over after a healthy one', async () => {
    const clock = new FakeClock()
    const { server, events } = await setUp(
      [
        live,
        watch => watch.close(1000),
        watch => watch.close(1000),
        watch => watch.close(1000),
        () => {},
        () => {},
      ],
      { clock, random: () => 0.5, backoffBaseMs: 800, backoffMaxMs: 30_000 },
    )
    void next(events, 1_000).catch(() => {})
    const pauses: number[] = []
    for (let count = 0; count < 4; count++) pauses.push(await passPause(clock))
    await eventually(() => server.watches.length === 5)
    await clock.advance(watcherDefaults.healthyAfterMs)
    server.watches[4]?.close(1001)
    pauses.push(await passPause(clock))
    expect(pauses).toEqual([400, 800, 1_600, 3_200, 400])
  })

  test('spread a thousand watches that a draining server closes over the window', async () => {
    const server = await ScriptedWatchServer.start([watch => watch.send(bookmark(7, true))])
    const transport = new HttpTransport({ server: server.url })
    const client = createClient(transport)
    const clock = new FakeClock()
    cleanUps.push(
      () => server.stop(),
      () => transport.close(),
    )
    let seed = 7
    const random = () => {
      seed = (seed * 1103515245 + 12345) % 2147483648
      return seed / 2147483648
    }
    let told = 0
    const follow = async () => {
      const abort = new AbortController()
      cleanUps.push(() => abort.abort())
      for await (const event of new Watcher(client, Gadget, { clock, random }).events(abort.signal)) {
        if (event.type === 'replaced') told++
      }
    }
    for (let count = 0; count < 1_000; count++) void follow()
    await eventually(() => told === 1_000)
    for (const watch of server.watches.splice(0)) watch.close(1001)
    await eventually(() => clock.pendingTimers === 1_000)
    const returned: number[] = []
    for (let tenth = 0; tenth < 10; tenth++) {
      const before = clock.pendingTimers
      clock.advanceSync(watcherDefaults.backoffBaseMs / 10)
      returned.push(before - clock.pendingTimers)
    }
    expect(clock.pendingTimers).toBe(0)
    expect(Math.max(...returned)).toBeLessThan(150)
    expect(Math.min(...returned)).toBeGreaterThan(50)
  })
})
