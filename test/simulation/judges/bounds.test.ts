import { expect, test } from 'vitest'
import type { Held } from '../world/world.ts'
import { judgeBounds } from './bounds.ts'

const idle: Held = {
  server: 0,
  sockets: 3,
  watches: 3,
  watchConnections: 2,
  requests: 0,
  waiting: 0,
  bodyBytes: 0,
  events: 20,
}

function complaints(...samples: readonly Partial<Held>[]): string[] {
  return judgeBounds(
    samples.map(each => [{ ...idle, ...each }]),
    9,
  ).map(({ message }) => message)
}

test('a server at rest holds nothing for those who left', () => {
  expect(complaints({})).toEqual([])
  expect(complaints({ requests: 1, bodyBytes: 2 })).toEqual([
    'server 0 at rest still has requests 1',
    'server 0 at rest still has bodyBytes 2',
  ])
  expect(complaints({ watchConnections: 4, watches: 5 })).toEqual([
    'server 0 at rest still has watches of closed connections',
  ])
  expect(complaints({ watches: 4 })).toEqual(['server 0 at rest still has watches without a connection'])
  expect(complaints({ events: 500 })).toEqual(['server 0 at rest still has 500 timers'])
})

test('a request of a controller at one moment is no leak', () => {
  expect(complaints({ requests: 1, events: 300 }, {})).toEqual([])
})
