import { once } from 'node:events'
import http from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { WebSocket } from 'ws'
import { bothStores } from '../../support/worlds.ts'
import type { Attack, Scene } from '../attack.ts'
import { call, callAll, statusesOf } from '../call.ts'
import { neighbourhood } from '../witness.ts'

/** Attacks of a viewer on the memory of watches and on the latency of events. */

const { collection, name } = neighbourhood

/** A write of the second caller that every watch must receive. */
async function write(scene: Scene): Promise<void> {
  const began = performance.now()
  const { status, text } = await call(scene.target, {
    method: 'PATCH',
    path: `${collection}/${name}`,
    as: 'neighbour',
    type: 'application/merge-patch+json',
    body: JSON.stringify({ spec: { op: String(began) } }),
    signal: scene.signal,
  })
  scene.check(status === 200, `a write of the second caller got ${status} ${text.slice(0, 200)}`)
  scene.checkMs('a write of the second caller', performance.now() - began, 1_000)
}

/** Opens a multiplexed socket. It is closed if the server refuses it. */
async function openMultiplexed({ target: { url, users } }: Scene): Promise<WebSocket> {
  const socket = new WebSocket(`${url.replace(/^http/, 'ws')}/apis`, 'v1.watch.setpoint.dev', {
    headers: users.headersOf('viewer'),
  })
  socket.on('error', () => {})
  await Promise.race([once(socket, 'open'), once(socket, 'close')]).catch(() => {})
  return socket
}

/**
 * Subscribes as often and as fast as the server reads.
 * @param selectorOf returns the label selector of a subscription
 */
async function subscribe(
  socket: WebSocket,
  subscriptions: number,
  selectorOf: (n: number) => string,
): Promise<void> {
  for (let n = 0; n < subscriptions && socket.readyState === WebSocket.OPEN; n++) {
    const path = `${collection}?labelSelector=${encodeURIComponent(selectorOf(n))}`
    await new Promise<void>(resolve =>
      socket.send(JSON.stringify({ op: 'subscribe', id: String(n), path }), () => resolve()),
    )
  }
}

function subscriptionAttack({
  sockets: socketCount,
  subscriptions,
  what,
  selectorOf,
}: {
  sockets: number
  subscriptions: number
  what: string
  selectorOf: (n: number) => string
}): Attack {
  return {
    name: `${socketCount} sockets of ${subscriptions.toLocaleString('en')} subscriptions with ${what} each`,
    attacker: 'viewer',
    stores: bothStores,
    async run(scene) {
      const sockets = await Promise.all(
        Array.from({ length: scene.count(2, socketCount) }, () => openMultiplexed(scene)),
      )
      const subscribing = Promise.all(
        sockets.map(socket => subscribe(socket, scene.count(subscriptions / 4, subscriptions), selectorOf)),
      )
      // The server reads no faster than it serves.
      await Promise.race([subscribing, sleep(scene.count(5_000, 20_000))])
      await sleep(scene.count(500, 5_000))
      await write(scene)
      for (const socket of sockets) socket.terminate()
      await subscribing
    },
  }
}

/** A watch over plain HTTP. Its client reads nothing after the headers, or leaves at once. */
function watch(scene: Scene): Promise<{ status: number; leave: () => void }> {
  const { url, users } = scene.target
  return new Promise(resolve => {
    const sent = http.get(`${url}${collection}?watch=true`, {
      agent: false,
      headers: users.headersOf('viewer'),
    })
    const leave = () => sent.destroy()
    sent.on('error', () => resolve({ status: 0, leave }))
    sent.on('response', response => {
      response.on('error', () => {})
      response.pause()
      resolve({ status: response.statusCode ?? 0, leave })
    })
  })
}

function terms(count: number): (n: number) => string {
  return n => Array.from({ length: count }, (_, term) => `l${term}!=v${n}`).join(',')
}

export const watchAttacks: readonly Attack[] = [
  subscriptionAttack({ sockets: 8, subscriptions: 1_000, what: '100 terms', selectorOf: terms(100) }),
  subscriptionAttack({ sockets: 8, subscriptions: 1_000, what: '500 terms', selectorOf: terms(500) }),
  // 1 GB of messages.
  subscriptionAttack({
    sockets: 40,
    subscriptions: 250,
    what: '100 KiB',
    selectorOf: () => 'l'.repeat(100 * 1024),
  }),
  {
    name: 'slow readers of large watches',
    attacker: 'viewer',
    stores: bothStores,
    comparable: true,
    objects: { short: 500, long: 20_000 },
    async run(scene) {
      const watches = await Promise.all(Array.from({ length: scene.count(50, 200) }, () => watch(scene)))
      for (let n = 0; n < scene.count(3, 20); n++) await write(scene)
      await sleep(scene.count(200, 5_000))
      const allowed = [200, 429]
      const refused = watches.find(({ status }) => !allowed.includes(status))
      scene.check(refused === undefined, `a watch got ${refused?.status}`)
      for (const { leave } of watches) leave()
    },
  },
  {
    name: '2,000 watches opened and dropped',
    attacker: 'viewer',
    async run(scene) {
      const request = {
        path: `${collection}?watch=true`,
        as: 'viewer' as const,
        abandon: 'at first bytes' as const,
        signal: scene.signal,
      }
      const replies = await callAll(scene.target, Array(scene.count(300, 2_000)).fill(request), 50)
      scene.check(
        replies.every(({ status }) => status === 200 || status === 429),
        `the responses were ${statusesOf(replies)}`,
      )
    },
  },
]
