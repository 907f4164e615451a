import type { Violation } from '../history.ts'
import type { Held } from '../world/world.ts'

const judge = 'bounds'

/** Timers and the like of a server that has nothing to do. A leak of one in each request exceeds it. */
const idleEvents = 100

/** A server watches the Plugin objects itself. */
const ownWatches = 1

/**
 * When nobody asks for anything any more, servers hold nothing for those who did: no request, no body, no watch without its
 * connection.
 * @param samples what the servers held at several moments of rest, because controllers still renew their leases
 */
export function judgeBounds(samples: readonly (readonly Held[])[], at: number): Violation[] {
  const servers = new Set(samples.flatMap(held => held.map(({ server }) => server)))
  return [...servers].flatMap(server => {
    const ofServer = samples.flatMap(held => held.filter(each => each.server === server))
    const least = (figure: (held: Held) => number) => Math.min(...ofServer.map(figure))
    const found: string[] = []
    for (const figure of ['requests', 'waiting', 'bodyBytes'] as const)
      if (least(each => each[figure]) > 0) found.push(`${figure} ${least(each => each[figure])}`)
    if (least(each => each.watchConnections - each.sockets) > 0) found.push('watches of closed connections')
    if (least(each => each.watches - each.watchConnections) > ownWatches)
      found.push('watches without a connection')
    const events = least(each => each.events)
    if (events > idleEvents) found.push(`${events} timers`)
    return found.map(what => ({ judge, at, message: `server ${server} at rest still has ${what}` }))
  })
}
