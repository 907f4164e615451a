import { networkInterfaces } from 'node:os'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Api, refusalOf } from './support/api.ts'
import { itemsOf } from './support/kinds.ts'
import { requestText, sendRaw } from './support/raw-socket.ts'
import { runProgram } from './support/server.ts'
import { refusedWatch, Watch } from './support/watch.ts'
import { type SharedWorld, startSharedWorld } from './support/worlds.ts'

describe('access without authentication', () => {
  let world: SharedWorld
  const path = '/apis/items.example.com/v1/items'

  beforeAll(async () => {
    world = await startSharedWorld('embedded', ['items-plugin'])
  })
  afterAll(() => world?.end())

  const get = (headers: Readonly<Record<string, string>>, target = path) =>
    sendRaw(world.server.port, requestText(`GET ${target}`, headers))

  it.each([
    'localhost',
    'LOCALHOST',
    'localhost:1',
    '127.0.0.1',
    '127.0.0.1:8090',
    '127.1.2.3',
    '[::1]',
    '[::1]:8090',
  ])('the Host %s is local', async host => {
    expect((await get({ host })).status).toBe(200)
  })

  it.each([
    'evil.example.com',
    'evil.example.com:8090',
    'localhost.evil.example.com',
    'evil-localhost',
    '127.0.0.1.evil.example.com',
    '127.0.0.1@evil.example.com',
    '10.0.0.1',
    '0.0.0.0',
    '[::]',
    '[::ffff:10.0.0.1]',
    'localhost:80:80',
    'localhost evil',
    '',
  ])('the Host %j is refused with 403, so that no name that was pointed here gets in', async host => {
    refusalOf(await get({ host }), 403)
  })

  it.each(['http://localhost:3000', 'http://127.0.0.1', 'https://localhost', 'http://[::1]:5173'])(
    'the Origin %s is local',
    async origin => {
      expect((await get({ host: 'localhost', origin })).status).toBe(200)
    },
  )

  it.each([
    'https://evil.example.com',
    'http://localhost.evil.example.com',
    'https://evil.example.com:8090',
    'null',
    'file://',
    'http://',
    'http://localhost@evil.example.com',
    'http://localhost://evil.example.com',
    'http://127.0.0.1:80/../evil',
    'chrome-extension://abcdef',
    'localhost',
  ])('the Origin %s is refused with 403', async origin => {
    refusalOf(await get({ host: 'localhost', origin }), 403)
  })

  it('a cross-site request for an image, script or link gets 403', async () => {
    const fromElsewhere = { host: 'localhost', 'sec-fetch-site': 'cross-site' }
    for (const mode of ['no-cors', 'navigate'])
      refusalOf(await get({ ...fromElsewhere, 'sec-fetch-mode': mode }), 403)
    refusalOf(await get({ ...fromElsewhere, origin: 'https://evil.example.com' }), 403)
    refusalOf(await get(fromElsewhere, '/livez'), 403)
  })

  it.each<[string, Readonly<Record<string, string>>]>([
    ['a URL that the user enters', { 'sec-fetch-site': 'none' }],
    ['a page of the server', { 'sec-fetch-site': 'same-origin' }],
    ['a page of another port', { 'sec-fetch-site': 'same-site' }],
    ['a page of another local name', { 'sec-fetch-site': 'cross-site', origin: 'http://127.0.0.1:3000' }],
  ])('a request from %s is served', async (_from, headers) => {
    expect((await get({ host: 'localhost', ...headers })).status).toBe(200)
  })

  it('every path checks the Origin, and writes do so before anything is stored', async () => {
    for (const target of ['/version', '/livez', '/apis', '/', '/nowhere', `${path}/one`]) {
      refusalOf(await get({ host: 'evil.example.com' }, target), 403)
      refusalOf(await get({ host: 'localhost', origin: 'https://evil.example.com' }, target), 403)
    }
    const items = itemsOf(world.api)
    const body = JSON.stringify(items.body('planted', {}))
    const headers = {
      host: 'localhost',
      origin: 'https://evil.example.com',
      'content-type': 'application/json',
      'content-length': String(body.length),
    }
    refusalOf(await sendRaw(world.server.port, requestText(`POST ${path}`, headers, body)), 403)
    expect((await items.list()).names).toEqual([])
  })

  it('a watch checks the Origin before the upgrade', async () => {
    refusalOf(await refusedWatch(world.server.url, path, { host: 'evil.example.com' }), 403)
    refusalOf(await refusedWatch(world.server.url, path, { origin: 'https://evil.example.com' }), 403)
    const watch = await Watch.open(world.server.url, path, { headers: { origin: 'http://localhost:3000' } })
    await watch.synced()
    await watch.close()
  })

  it('a body without a JSON content type, as another site may send it, is not parsed as JSON', async () => {
    const items = itemsOf(world.api)
    const answer = await world.api.post(path, items.body('planted', {}), { type: 'text/plain' })
    refusalOf(answer, 415)
    expect((await items.list()).names).toEqual([])
  })

  it.each(['0.0.0.0:0', '[::]:0', '10.1.2.3:0', 'example.com:0'])(
    'listening on %s fails with one line and exit code 2',
    async address => {
      const { code, stdout, stderr } = await runProgram(['serve', '--listen', address])
      expect(code).toBe(2)
      expect(stdout).toBe('')
      expect(stderr.trimEnd().split('\n')).toHaveLength(1)
      expect(stderr).toMatch(/--listen/)
    },
  )

  it('only the loopback address accepts connections', async () => {
    const others = Object.values(networkInterfaces())
      .flat()
      .filter(each => each !== undefined && each.family === 'IPv4' && !each.internal)
    for (const other of others) {
      await expect(new Api(`http://${other?.address}:${world.server.port}`).get('/version')).rejects.toThrow()
    }
    expect((await world.api.get('/version')).status).toBe(200)
  })
})
