import http from 'node:http'
import { bothStores } from '../../support/worlds.ts'
import type { Attack, Scene } from '../attack.ts'
import { type Call, call, callAll, statusesOf } from '../call.ts'
import { closedByServer, openSockets } from '../sockets.ts'
import { type Setup, usual } from '../target.ts'
import { neighbourhood } from '../witness.ts'

/** Attacks with many small requests. */

const unread: Setup = Object.freeze({ ...usual, stderr: 'unread' })

/** Sends requests over 50 connections and checks their statuses. */
async function flood(scene: Scene, requests: readonly Call[], allowed: readonly number[]): Promise<void> {
  const agent = new http.Agent({ keepAlive: true })
  const { signal } = scene
  const all = requests.map(request => ({ ...request, agent, signal }))
  const replies = await callAll(scene.target, all, 50)
  agent.destroy()
  scene.check(
    replies.every(({ status }) => allowed.includes(status)),
    `the responses were ${statusesOf(replies)}`,
  )
}

function times(count: number, make: (n: number) => Call): Call[] {
  return Array.from({ length: count }, (_, n) => make(n))
}

/**
 * Sends the same requests on many connections at once, and leaves when the server has responded to them or closed all.
 */
async function pipeline(scene: Scene, connections: number, requests: string): Promise<void> {
  const sockets = await openSockets(scene.target, connections)
  for (const socket of sockets) socket.write(requests)
  const open = await closedByServer(sockets, 60_000)
  scene.check(open === 0, `${open} of ${connections} connections are open after a minute`)
}

/** 2,730 of them fit into what Node reads at once. */
const request = 'GET /livez HTTP/1.1\r\n\r\n'
const last = 'GET /livez HTTP/1.1\r\nconnection: close\r\n\r\n'

export const floodAttacks: readonly Attack[] = [
  {
    name: 'thousands of refused requests while standard error is unread',
    comparable: true,
    attacker: 'viewer',
    setup: unread,
    async run(scene) {
      const failing = times(scene.count(1_000, 4_000), () => ({
        path: '/apis/api.echo.example.com/v1/throw',
        as: 'viewer' as const,
      }))
      await flood(scene, failing, [500, 429])
      const paths = ['/apis', '/%', '/apis/%00/v1', '/livez?\u0000', '//', '/apis/x/../y']
      const refused = times(scene.count(500, 4_000), n => ({
        method: ['GET', 'POST', 'TRACE', 'OPTIONS'][n % 4] ?? 'GET',
        path: encodeURI(paths[n % paths.length] ?? '/'),
      }))
      await flood(scene, refused, [200, 204, 400, 401, 403, 404, 405, 429, 501])
    },
  },
  {
    name: 'wrong tokens',
    comparable: true,
    attacker: 'no token',
    async run(scene) {
      const requests = times(scene.count(500, 5_000), n => ({
        path: neighbourhood.collection,
        as: { token: `sp_${'x'.repeat(n % 2 === 0 ? 43 : 8_000)}${n}` },
      }))
      await flood(scene, requests, [401, 429])
    },
  },
  {
    name: 'discovery',
    comparable: true,
    attacker: 'viewer',
    async run(scene) {
      const paths = ['/apis', '/apis/items.example.com/v1', '/version']
      const requests = times(scene.count(300, 3_000), n => ({
        path: paths[n % paths.length] ?? '/apis',
        as: 'viewer' as const,
      }))
      await flood(scene, requests, [200, 429])
    },
  },
  {
    name: 'metrics',
    attacker: 'viewer',
    async run(scene) {
      const requests = times(scene.count(100, 1_000), () => ({ path: '/metrics', as: 'viewer' as const }))
      await flood(scene, requests, [200, 429])
    },
  },
  {
    name: 'verbose health',
    comparable: true,
    attacker: 'no token',
    stores: bothStores,
    async run(scene) {
      await flood(
        scene,
        times(scene.count(300, 3_000), () => ({ path: '/readyz?verbose' })),
        [200, 401, 403, 429],
      )
    },
  },
  {
    name: 'pipelined writes',
    comparable: true,
    attacker: 'writer',
    stores: bothStores,
    async run(scene) {
      const body = '{"apiVersion":"items.example.com/v1","kind":"Item","metadata":{"name":"neighbour-0"}}'
      const write = [
        `POST ${neighbourhood.collection} HTTP/1.1`,
        'host: 127.0.0.1',
        `authorization: Bearer ${scene.target.users.tokenOf('writer')}`,
        'content-type: application/json',
        `content-length: ${body.length}`,
        `\r\n${body}`,
      ].join('\r\n')
      await pipeline(scene, scene.count(20, 375), write.repeat(32) + last)
    },
  },
  {
    name: 'connections full of small requests',
    comparable: true,
    attacker: 'no token',
    async run(scene) {
      const { length } = request
      await pipeline(
        scene,
        scene.count(200, 800),
        request.repeat(Math.floor((64 * 1024) / length) - 2) + last,
      )
      scene.check((await call(scene.target, { path: '/livez' })).status === 200, '/livez is not 200')
    },
  },
]
