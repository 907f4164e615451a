import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { Agent, type IncomingMessage, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { expect, it } from 'vitest'
import { pluginModule, writePlugin } from './support/plugins.ts'
import { startSharedServer } from './support/server.ts'

it('frames a response without content so that the client sees its end, and gives handlers the path as it was sent', async () => {
  const dir = await writePlugin({
    'index.js': pluginModule('framed', {
      setup: `plugin.routes('api.framed.example.com/v1', r => {
        for (const status of [204, 205, 304]) {
          r.get('/' + status, () => ({ status }))
          r.get('/' + status + '/content', () => ({ status, body: 'content' }))
        }
        r.get('/paths/*rest', ({ path }) => ({ body: path }))
      })`,
    }),
  })
  const server = await startSharedServer({ plugins: [dir] })
  try {
    const port = Number(new URL(server.url).port)
    const prefix = '/apis/api.framed.example.com/v1'
    for (const status of [204, 205, 304]) {
      for (const path of [`/${status}`, `/${status}/content`]) {
        const { status: received, connection, body } = await get(port, `${prefix}${path}`)
        expect([path, received, body]).toEqual([path, status, ''])
        expect(connection).toBe(status === 205 ? 'close' : 'keep-alive')
      }
    }
    const path = `${prefix}/paths/a/../b%2fc`
    expect(await get(port, path)).toMatchObject({ status: 200, body: path })
  } finally {
    await server.stop()
    await rm(dir, { recursive: true, force: true })
  }
})

/** Sends a path as it is and keeps the connection. Resolves when the response has ended. */
async function get(port: number, path: string) {
  const agent = new Agent({ keepAlive: true })
  try {
    const sent = request({ host: '127.0.0.1', port, path, agent, timeout: 120_000 })
    sent.on('timeout', () => sent.destroy(new Error(`no end of the response to ${path}`)))
    sent.end()
    const [response]: IncomingMessage[] = await once(sent, 'response')
    if (response === undefined) throw new Error('no response')
    const { statusCode: status, headers } = response
    return { status, connection: headers.connection, body: await text(response) }
  } finally {
    agent.destroy()
  }
}
