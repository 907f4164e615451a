import net from 'node:net'
import { afterEach, describe, expect, test } from 'vitest'
import { eventually } from '../../../test/support/sdk/eventually.ts'
import { bookmark, Gadget, gadget } from '../../../test/support/sdk/sample-models.ts'
import {
  type Refusal,
  ScriptedWatchServer,
  type WatchScript,
} from '../../../test/support/sdk/scripted-watch-server.ts'
import {
  added,
  deleted,
  expired,
  initial,
  modified,
  next,
  watched,
} from '../../../test/support/sdk/watched.ts'
import { ApiError } from '../api/errors.ts'
import { Backoff } from '../backoff.ts'
import { createClient } from '../client/create-client.ts'
import { HttpTransport } from '../client/http-transport.ts'
import { type Logger, silentLogger } from '../logger.ts'
import { FakeClock } from '../testing/fake-clock.ts'
import { Watcher } from './watcher.ts'

const cleanUps: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp()
})

async function setUp(...arguments_: Parameters<typeof watched>) {
  const set = await watched(...arguments_)
  cleanUps.push(() => set[Symbol.asyncDispose]())
  return set
}

describe('the initial list', () => {
  test('reports all objects in one event, then each change', async () => {
    const { server, events } = await setUp([
      watch => {
        initial(watch)
        watch.send(modified('a', 8))
        watch.send(deleted('b', 9))
        watch.send(bookmark(12))
      },
    ])
    expect(await next(events, 4)).toEqual([
      'replaced a@5,b@3 v7',
      'applied a v8',
      'deleted b v9',
      'bookmark v12',
    ])
    expect(server.attempts.map(String)).toEqual(['http://localhost/apis/demo.example.com/v1/gadgets'])
  })

  test('reports nothing if it is interrupted', async () => {
    const { events } = await setUp([
      watch => {
        watch.send(added('ghost', 2))
        watch.send(bookmark(3))
        watch.cut()
      },
      initial,
    ])
    expect(await next(events, 1)).toEqual(['replaced a@5,b@3 v7'])
  })

  test('sends selectors and name, also when resuming', async () => {
    const { server, events } = await setUp(
      [
        watch => {
          initial(watch)
          watch.close(1000)
        },
        watch => watch.send(modified('a', 8)),
      ],
      { labelSelector: 'tier=front', fieldSelector: ['spec.colour=red', 'x=y'] },
    )
    await next(events, 2)
    expect(server.attempts[1]?.searchParams.getAll('labelSelector')).toEqual(['tier=front'])
    expect(server.attempts[1]?.searchParams.getAll('fieldSelector')).toEqual(['spec.colour=red', 'x=y'])
    expect(server.attempts[1]?.searchParams.get('version')).toBe('7')
  })
})

describe('resuming', () => {
  test('continues after the last version received, including bookmarks', async () => {
    const { server, events } = await setUp([
      watch => {
        initial(watch)
        watch.send(modified('a', 8))
        watch.send(bookmark(20))
      },
      watch => watch.send(modified('a', 21)),
    ])
    expect(await next(events, 3)).toEqual(['replaced a@5,b@3 v7', 'applied a v8', 'bookmark v20'])
    server.watches[0]?.cut()
    expect(await next(events, 1)).toEqual(['applied a v21'])
    expect(server.watches.map(watch => watch.version)).toEqual([null, '20'])
  })

  test('skips events that the server sends twice or out of order', async () => {
    const { watcher, events } = await setUp([
      watch => {
        initial(watch)
        watch.send(modified('a', 8))
        watch.send(modified('a', 8))
        watch.send(added('b', 3))
        watch.send(deleted('a', 6))
        watch.send(bookmark(8))
        watch.send(modified('b', 10))
      },
    ])
    expect(await next(events, 3)).toEqual(['replaced a@5,b@3 v7', 'applied a v8', 'applied b v10'])
    expect(watcher.counts.outOfDate).toBe(3)
  })

  test('compares versions as integers of any length', async () => {
    const { events } = await setUp([
      watch => {
        watch.send(bookmark(9, true))
        watch.send(modified('a', 10))
        watch.send({
          type: 'MODIFIED',
          object: {
            ...gadget('a', 1),
            metadata: { ...gadget('a', 1).metadata, version: '9007199254740993' },
          },
        })
        watch.send({
          type: 'MODIFIED',
          object: {
            ...gadget('a', 1),
            metadata: { ...gadget('a', 1).metadata, version: '9007199254740994' },
          },
        })
      },
    ])
    expect(await next(events, 4)).toEqual([
      'replaced  v9',
      'applied a v10',
      'applied a v9007199254740993',
      'applied a v9007199254740994',
    ])
  })

  test('a normal close of a healthy watch is followed by an immediate reconnect', async () => {
    const { server, events } = await setUp([initial, watch => watch.send(modified('a', 8))], {
      healthyAfterMs: 0,
      backoffBaseMs: 60_000,
      backoffMaxMs: 60_000,
    })
    expect(await next(events, 1)).toEqual(['replaced a@5,b@3 v7'])
    server.watches[0]?.close(1000)
    expect(await next(events, 1)).toEqual(['applied a v8'])
    expect(server.watches).toHaveLength(2)
  })
})

describe('lost history', () => {
  const gone: [string, WatchScript | Refusal][] = [
    ['in-band', watch => watch.send(expired)],
    ['as a close code', watch => watch.close(4410, 'too old')],
    [
      'in-band and as a close code',
      watch => {
        watch.send(expired)
        watch.close(4410)
      },
    ],
    ['in place of the upgrade', { status: 410, body: new ApiError('Expired', 'too old').toStatus() }],
    ['in place of the upgrade, without a Status', { status: 410 }],
  ]
  test.each(gone)('410 %s lists all objects again', async (_way, refusal) => {
    const { server, events } = await setUp([
      watch => {
        initial(watch)
        watch.cut()
      },
      refusal,
      watch => {
        watch.send(added('c', 30))
        watch.send(bookmark(31, true))
      },
    ])
    expect(await next(events, 2)).toEqual(['replaced a@5,b@3 v7', 'replaced c@30 v31'])
    expect(server.attempts.map(url => url.searchParams.get('version'))).toEqual([null, '7', null])
  })

  test('410 during a live watch, and again while listing', async () => {
    const { events } = await setUp([
      watch => {
        initial(watch)
        watch.send(expired)
      },
      watch => {
        watch.send(added('a', 5))
        watch.send(expired)
      },
      watch => watch.send(bookmark(40, true)),
    ])
    expect(await next(events, 2)).toEqual(['replaced a@5,b@3 v7', 'replaced  v40'])
  })

  test('follows a server whose versions started over', async () => {
    const { events } = await setUp([
      watch => {
        initial(watch)
        watch.send(bookmark(1000))
        watch.send(expired)
      },
      watch => {
        watch.send(added('a', 2))
        watch.send(bookmark(2, true))
        watch.send(modified('a', 3))
      },
    ])
    expect(await next(events, 4)).toEqual([
      'replaced a@5,b@3 v7',
      'bookmark v1000',
      'replaced a@2 v2',
      'applied a v3',
    ])
  })
})

describe('errors do not end the watcher:', () => {
  test.each([
    ['a frame that is not JSON', '{"type":"MODI'],
    ['an unknown event type', JSON.stringify({ type: 'RENAMED', object: gadget('a', 8) })],
    ['an event without an object', JSON.stringify({ type: 'MODIFIED' })],
    [
      'an object of another kind',
      JSON.stringify({ type: 'ADDED', object: { ...gadget('a', 8), kind: 'Tool' } }),
    ],
    [
      'a version that is not a number',
      JSON.stringify({
        type: 'ADDED',
        object: { ...gadget('a', 8), metadata: { ...gadget('a', 8).metadata, version: 'x' } },
      }),
    ],
  ])('%s is counted and leads to a new connection from the last version', async (_what, frame) => {
    const { server, watcher, events } = await setUp([
      watch => {
        initial(watch)
        watch.sendRaw(frame)
        watch.send(modified('b', 9))
      },
      watch => {
        watch.send(modified('a', 8))
        watch.send(modified('b', 9))
      },
    ])
    expect(await next(events, 3)).toEqual(['replaced a@5,b@3 v7', 'applied a v8', 'applied b v9'])
    expect(server.watches.map(watch => watch.version)).toEqual([null, '7'])
    expect(watcher.counts.malformed).toBe(1)
  })

  test.each([401, 403, 404, 429, 500, 503])('a refusal with %i is retried', async status => {
    const { events } = await setUp([{ status }, { status }, initial])
    expect(await next(events, 1)).toEqual(['replaced a@5,b@3 v7'])
  })

  test('an error other than 410 in a live watch resumes it', async () => {
    const { server, events } = await setUp([
      watch => {
        initial(watch)
        watch.send({ type: 'ERROR', object: new ApiError('InternalError', 'oops').toStatus() })
      },
      watch => watch.send(modified('a', 8)),
    ])
    expect(await next(events, 2)).toEqual(['replaced a@5,b@3 v7', 'applied a v8'])
    expect(server.watches.map(watch => watch.version)).toEqual([null, '7'])
  })

  test('a server that goes away and returns', async () => {
    const failures: string[] = []
    const log: Logger = {
      ...silentLogger,
      debug: (_, message) => void failures.push(message),
      child: () => log,
    }
    const { server, events } = await setUp([initial, watch => watch.send(modified('a', 8))], { log })
    expect(await next(events, 1)).toEqual(['replaced a@5,b@3 v7'])
    await server.stop()
    const waiting = next(events, 1)
    await eventually(() => failures.filter(each => each.startsWith('server is not ready')).length > 1)
    await server.listen()
    expect(await waiting).toEqual(['applied a v8'])
  })

  test('an abort ends it: the iteration returns and the connection closes', async () => {
    const { server, events, abort } = await setUp([initial])
    await next(events, 1)
    const waiting = events.next()
    abort.abort()
    expect(await waiting).toEqual({ done: true, value: undefined })
    expect(await server.watches[0]?.closed).toBe(1000)
    expect(server.attempts).toHaveLength(1)
  })

  test('an abort ends it during the back-off too', async () => {
    const clock = new FakeClock()
    const { server, events, abort } = await setUp([{ status: 503 }], { clock })
    const waiting = events.next()
    await eventually(() => server.attempts.length === 1 && clock.pendingTimers === 1)
    abort.abort()
    expect(await waiting).toEqual({ done: true, value: undefined })
  })
})

describe('a connection cut', () => {
  const history = [modified('a', 8), deleted('b', 9), added('c', 10), bookmark(11), modified('c', 12)]
  const told = [
    'replaced a@5,b@3 v7',
    'applied a v8',
    'deleted b v9',
    'applied c v10',
    'bookmark v11',
    'applied c v12',
  ]
  const everything: WatchScript = watch => {
    if (watch.version === null) initial(watch)
    for (const event of history) {
      if (Number(event.object.metadata.version) > Number(watch.version ?? 7)) watch.send(event)
    }
  }

  test('between any two events loses and repeats no event', async () => {
    const few = [0, 1, 0, 2, 1, 1, 5].map(
      (frames): WatchScript =>
        watch => {
          const rest = history.filter(event => Number(event.object.metadata.version) > Number(watch.version))
          for (const event of rest.slice(0, frames)) watch.send(event)
          watch.cutWhenReceived()
        },
    )
    const listed: WatchScript = watch => {
      initial(watch)
      watch.cutWhenReceived()
    }
    const { events } = await setUp([listed, ...few])
    expect(await next(events, 6)).toEqual(told)
  })

  test('after any byte, including the upgrade, loses and repeats no event', async () => {
    const server = await ScriptedWatchServer.start([everything])
    let budget = 0
    // A proxy that cuts the first connection of each round after `budget` bytes from the server.
    const proxy = net.createServer(client => {
      const upstream = net.connect(Number(new URL(server.url).port), '127.0.0.1')
      let left = budget
      budget = Number.POSITIVE_INFINITY
      client.on('error', () => {})
      upstream.on('error', () => {})
      client.pipe(upstream)
      upstream.on('data', data => {
        client.write(data.subarray(0, Math.min(left, data.length)))
        left -= data.length
        if (left <= 0) client.destroySoon()
      })
      upstream.on('close', () => client.destroy())
      client.on('close', () => upstream.destroy())
    })
    await new Promise<void>(resolve => proxy.listen(0, '127.0.0.1', resolve))
    const address = proxy.address()
    const port = typeof address === 'object' ? address?.port : 0
    const transport = new HttpTransport({ server: `http://127.0.0.1:${port}` })
    cleanUps.push(
      () => proxy.close(),
      () => transport.close(),
      () => server.stop(),
    )
    // Every byte of one change frame, and every 23rd of the rest.
    const cuts = Array.from({ length: 2300 }, (_, bytes) => bytes).filter(
      bytes => bytes % 23 === 0 || (bytes >= 1030 && bytes < 1290),
    )
    for (const bytes of cuts) {
      budget = bytes
      const abort = new AbortController()
      const watcher = new Watcher(createClient(transport), Gadget, { backoffBaseMs: 1, backoffMaxMs: 1 })
      expect(await next(watcher.events(abort.signal), 6), `cut after ${bytes} bytes`).toEqual(told)
      abort.abort()
    }
  })
})

describe('back-off', () => {
  test('has full jitter below a ceiling that doubles from 800 ms to 30 s, and starts over after a reset', () => {
    const ceiling = new Backoff({ baseMs: 800, maxMs: 30_000, random: () => 1 })
    expect(Array.from({ length: 8 }, () => ceiling.next())).toEqual([
      800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000,
    ])
    ceiling.reset()
    expect(ceiling.next()).toBe(800)
    const floor = new Backoff({ baseMs: 800, maxMs: 30_000, random: () => 0 })
    expect([floor.next(), floor.next()]).toEqual([0, 0])
    expect(floor.next(5000)).toBe(5000)
  })
})
