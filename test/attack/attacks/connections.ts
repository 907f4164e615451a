import { setTimeout as sleep } from 'node:timers/promises'
import { TLSSocket } from 'node:tls'
import type { Attack, Scene } from '../attack.ts'
import { call, callAll, statusesOf } from '../call.ts'
import { closedByServer, openPlainSockets, openSockets, responded } from '../sockets.ts'
import { type Setup, targetLimits, usual } from '../target.ts'
import { neighbourhood } from '../witness.ts'

/** Attacks on sockets. The server must release every connection, however its client leaves. */

export const overTls: Setup = Object.freeze({ ...usual, scheme: 'https' })

const host = 'Host: 127.0.0.1\r\n'
const h2c = `GET / HTTP/1.1\r\n${host}Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n`

/** A second request asks for an upgrade while the first is being served. Then the client leaves. */
async function pipelineUpgrades(scene: Scene): Promise<void> {
  const sockets = await openSockets(scene.target, scene.count(200, 500))
  for (const socket of sockets) socket.write(`GET /livez HTTP/1.1\r\n${host}\r\n${h2c}`)
  await responded(sockets, 2_000)
  for (const [n, socket] of sockets.entries()) {
    if (n % 2 === 0) socket.destroy()
    else socket.end()
  }
  await sleep(200)
  for (const socket of sockets) socket.destroy()
}

/** Incomplete requests, and requests pipelined behind one that is being served. */
const beginnings: Readonly<Record<string, string>> = {
  nothing: '',
  'half a line': 'GET /live',
  'half a header': `GET /livez HTTP/1.1\r\n${host}X-Slow: `,
  'half a body': `POST /livez HTTP/1.1\r\n${host}Content-Length: 1000\r\n\r\n{"a"`,
  'half a chunk': `POST /livez HTTP/1.1\r\n${host}Transfer-Encoding: chunked\r\n\r\n10\r\n{"a"`,
  'a body that is waited for': `POST /livez HTTP/1.1\r\n${host}Content-Length: 1000\r\nExpect: 100-continue\r\n\r\n`,
  'a pipeline': `GET /livez HTTP/1.1\r\n${host}\r\n`.repeat(20),
  'a pipelined h2c upgrade': `GET /livez HTTP/1.1\r\n${host}\r\n${h2c}`,
  'a pipelined WebSocket': `GET /livez HTTP/1.1\r\n${host}\r\nGET /apis HTTP/1.1\r\n${host}Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`,
  'a pipelined tunnel': `GET /livez HTTP/1.1\r\n${host}\r\nCONNECT 127.0.0.1:80 HTTP/1.1\r\n${host}\r\n`,
  'an upgrade to nothing known': `GET /livez HTTP/1.1\r\n${host}Connection: Upgrade\r\nUpgrade: nothing\r\n\r\n`,
  garbage: '\u0016\u0003\u0001\u0000\r\n\r\n',
}

async function leaveInEveryWay(scene: Scene): Promise<void> {
  for (const text of Object.values(beginnings)) {
    const sockets = await openSockets(scene.target, scene.count(9, 60))
    for (const socket of sockets) socket.write(text, 'latin1')
    await responded(sockets, 200)
    for (const [n, socket] of sockets.entries()) {
      if (n % 3 === 0) socket.end()
      else if (n % 3 === 1) socket.destroy()
      // TLS sockets cannot be reset.
      else if (socket instanceof TLSSocket) socket.destroy()
      else socket.resetAndDestroy()
    }
    await sleep(20)
    for (const socket of sockets) socket.destroy()
  }
}

/** Checks that the server can still open files and accept connections: there are more clients than descriptors. */
async function checkFiles(scene: Scene): Promise<void> {
  // The token file is read every two seconds.
  await sleep(scene.count(0, 3_000))
  const { status, text } = await call(scene.target, {
    path: '/metrics',
    as: 'neighbour',
    signal: scene.signal,
  })
  scene.check(status === 200, `/metrics responded with ${status} ${text.slice(0, 100)}`)
  scene.check(
    /^setpoint_file_failing_seconds\{file="token-file"\} 0$/m.test(text),
    'the token file cannot be read',
  )
  const open = Number(/^process_open_fds (\d+)$/m.exec(text)?.[1] ?? Number.NaN)
  scene.check(open < targetLimits.descriptors, `the server has ${open} open descriptors`)
}

/** Sockets that stay silent until the server closes them; the short form does not wait for that. */
async function stall(
  scene: Scene,
  sockets: Awaited<ReturnType<typeof openSockets>>,
  patienceMs: number,
): Promise<void> {
  if (scene.form === 'short') await sleep(500)
  else {
    const open = await closedByServer(sockets, patienceMs)
    scene.check(open === 0, `${open} of ${sockets.length} silent connections are open after ${patienceMs} ms`)
  }
  for (const socket of sockets) socket.destroy()
}

export const connectionAttacks: readonly Attack[] = [
  { name: 'pipelined h2c upgrades', attacker: 'no token', comparable: true, run: pipelineUpgrades },
  {
    name: 'pipelined h2c upgrades over TLS',
    attacker: 'no token',
    comparable: true,
    setup: overTls,
    run: pipelineUpgrades,
  },
  {
    name: 'requests left half-way in every way',
    attacker: 'no token',
    comparable: true,
    run: leaveInEveryWay,
  },
  {
    name: 'pipelined h2c upgrades that stay',
    attacker: 'no token',
    setup: overTls,
    longOnly: true,
    async run(scene) {
      const sockets = await openSockets(scene.target, 100)
      for (const socket of sockets) socket.write(`GET /livez HTTP/1.1\r\n${host}\r\n${h2c}`)
      // An idle connection is kept for 75 s.
      await stall(scene, sockets, 90_000)
    },
  },
  {
    name: 'requests left half-way in every way over TLS',
    comparable: true,
    attacker: 'no token',
    setup: overTls,
    longOnly: true,
    run: leaveInEveryWay,
  },
  {
    name: '900 half requests',
    comparable: true,
    attacker: 'no token',
    async run(scene) {
      const sockets = await openSockets(scene.target, scene.count(300, 900))
      for (const socket of sockets) socket.write(beginnings['half a header'] ?? '')
      // One byte a second keeps a connection active. The time-out for all headers must end it.
      const drip = setInterval(() => {
        for (const socket of sockets) if (socket.writable) socket.write('x')
      }, 1_000)
      await stall(scene, sockets, 75_000).finally(() => clearInterval(drip))
    },
  },
  {
    name: '1,100 half TLS handshakes',
    comparable: true,
    attacker: 'no token',
    setup: overTls,
    async run(scene) {
      const sockets = await openPlainSockets(scene.target, 1_100)
      for (const socket of sockets) socket.write(Buffer.from('1603010200010001fc0303', 'hex'))
      await checkFiles(scene)
      await stall(scene, sockets, 40_000)
    },
  },
  {
    name: '1,100 connections that send nothing',
    attacker: 'no token',
    async run(scene) {
      const sockets = await openSockets(scene.target, 1_100)
      await checkFiles(scene)
      await stall(scene, sockets, 75_000)
    },
  },
  {
    name: '1,100 connections that are kept after a request',
    attacker: 'no token',
    longOnly: true,
    async run(scene) {
      const sockets = await openSockets(scene.target, 1_100)
      for (const socket of sockets) if (socket.writable) socket.write(`GET /livez HTTP/1.1\r\n${host}\r\n`)
      await checkFiles(scene)
      // An idle connection is kept for 75 s.
      await stall(scene, sockets, 90_000)
    },
  },
  {
    name: '300 bodies declared and never sent',
    attacker: 'writer',
    async run(scene) {
      const sockets = await openSockets(scene.target, scene.count(100, 300))
      const token = scene.target.users.tokenOf('writer')
      for (const socket of sockets) {
        socket.write(
          `POST ${neighbourhood.collection} HTTP/1.1\r\n${host}Authorization: Bearer ${token}\r\nContent-Type: application/json\r\nContent-Length: 3000000\r\n\r\n{`,
        )
      }
      await stall(scene, sockets, 60_000)
    },
  },
  {
    name: 'headers of 250 KiB',
    attacker: 'no token',
    async run(scene) {
      const request = { path: '/livez', headers: { 'x-large': 'x'.repeat(250 * 1024) }, signal: scene.signal }
      const replies = await callAll(scene.target, Array(scene.count(50, 300)).fill(request), 20)
      const expected = [200, 400, 429, 431]
      scene.check(
        replies.every(({ status }) => expected.includes(status)),
        `the responses were ${statusesOf(replies)}`,
      )
      scene.check((await call(scene.target, { path: '/livez' })).status === 200, '/livez is not 200')
    },
  },
]
