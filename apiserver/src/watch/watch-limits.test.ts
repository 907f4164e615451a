import { parseFieldSelector, parseLabelSelector, selectsEverything } from '@setpoint/controller-runtime/api'
import { describe, expect, it } from 'vitest'
import { selectorBytes, subscriptionLimits, WatchConnections } from './watch-limits.ts'

const tooMany = (why: string) =>
  expect.objectContaining({
    code: 429,
    message: expect.stringContaining(why),
    details: expect.objectContaining({ retryAfterSeconds: expect.any(Number) }),
  })

/** A selector that counts as about 8 KiB. */
const large = {
  labels: parseLabelSelector(Array.from({ length: 100 }, (_, i) => `key-${i}=v`).join(',')),
  fields: [],
}

function refusalOf(call: () => unknown): unknown {
  try {
    call()
  } catch (error) {
    return error
  }
  return undefined
}

describe('connections that watch', () => {
  it('are bounded per user and in total', () => {
    const connections = new WatchConnections({ connections: 3, connectionsPerUser: 2 })
    const places = [connections.admit('ann'), connections.admit('ann')]
    expect(refusalOf(() => connections.admit('ann'))).toEqual(tooMany('ann has 2 connections'))
    connections.admit('bob')
    expect(refusalOf(() => connections.admit('cid'))).toEqual(tooMany(': the total of the server is used up'))
    for (const place of places) place.leave()
    places[0]?.leave()
    expect(connections.open).toBe(1)
    connections.admit('cid')
  })
})

describe('the subscriptions of a connection', () => {
  it('are bounded in number, and an ended one makes room once', () => {
    const place = new WatchConnections().admit('ann')
    const releases = Array.from({ length: subscriptionLimits.subscriptions }, () =>
      place.subscribe(selectsEverything),
    )
    expect(refusalOf(() => place.subscribe(selectsEverything))).toEqual(tooMany('this connection has 1000'))
    releases[0]?.()
    releases[0]?.()
    place.subscribe(selectsEverything)
    expect(refusalOf(() => place.subscribe(selectsEverything))).toEqual(tooMany('this connection has 1000'))
  })

  it('are bounded by the size of their selectors per connection, per user and in total', () => {
    const connections = new WatchConnections()
    const each = selectorBytes(large)
    const fill = (user: string, whose: string) => {
      const place = connections.admit(user)
      let subscribed = 0
      for (let refused: unknown; refused === undefined; ) {
        refused = refusalOf(() => place.subscribe(large))
        if (refused === undefined) subscribed++
        else expect(refused).toEqual(tooMany(whose))
      }
      return { place, subscribed }
    }
    const { selectorBytes: ofSocket, selectorBytesPerUser, selectorBytesInAll } = subscriptionLimits
    const perSocket = Math.floor(ofSocket / each)
    const places = []
    for (const user of ['ann', 'bob', 'cid', 'dan']) {
      const perUser = Math.floor(selectorBytesPerUser / each)
      for (let left = perUser; left > perSocket; left -= perSocket) {
        const { place, subscribed } = fill(user, 'this connection has')
        expect(subscribed).toBe(perSocket)
        places.push(place)
      }
      places.push(fill(user, `${user} has`).place)
    }
    const inAll = Math.floor(selectorBytesInAll / each)
    expect(inAll - connections.subscriptions).toBeLessThan(5)
    fill('eve', ': the total of the server is used up')
    for (const place of places) place.leave()
    expect(connections.subscriptions).toBeLessThan(5)
  })
})

it('the bytes of a selector count its text, terms and values', () => {
  const { termBytes } = subscriptionLimits
  expect(selectorBytes(selectsEverything)).toBe(0)
  expect(
    selectorBytes({ labels: parseLabelSelector('a,b!=c'), fields: parseFieldSelector('spec.n=(\u00e9,x)') }),
  ).toBe(termBytes + 1 + (2 * termBytes + 2) + (3 * termBytes + 9))
})
