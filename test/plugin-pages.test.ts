import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Api } from './support/api.ts'
import { pluginsPath } from './support/kinds.ts'
import { type RunningServer, spawnProgram, startSharedServer } from './support/server.ts'
import { Users } from './support/users.ts'

/** Static pages of plugins: `plugin.pages` of the SDK. */

const plugins = [fileURLToPath(new URL('./fixtures/pages-plugin', import.meta.url))]
const hashed = '/reports/assets/app-ABCDEFGH.js'

let users: Users<'ann'>
let server: RunningServer
let api: Api

beforeAll(async () => {
  users = await Users.make({ ann: ['setpoint:admins'] })
  server = await startSharedServer({ plugins, args: ['--base-path', '/x', '--console=false', ...users.args] })
  api = users.api(server.url, 'ann')
})
afterAll(async () => {
  await server?.stop()
  await users?.remove()
})

const ask = (path: string, init?: RequestInit) =>
  fetch(`${server.url}${path}`, { redirect: 'manual', ...init })

it('a page is for everyone, is checked again each time, and runs code of this server only', async () => {
  const response = await ask('/reports')
  expect(response.status).toBe(200)
  expect(Object.fromEntries(response.headers)).toMatchObject({
    'cache-control': 'no-cache',
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': expect.stringContaining("script-src 'self'"),
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
  })
  expect(response.headers.get('content-security-policy')).not.toMatch(/unsafe|http|\*/)
  expect(await response.text()).toContain('<base href="/x/reports/"')
  const etag = response.headers.get('etag') ?? ''
  expect((await ask('/reports', { headers: { 'if-none-match': etag } })).status).toBe(304)
})

it('a file in assets/ is kept for ever, in the coding that the client prefers', async () => {
  for (const coding of ['br', 'gzip', 'identity']) {
    const response = await ask(hashed, { headers: { 'accept-encoding': coding } })
    expect(response.headers.get('cache-control')).toBe('public, max-age=31536000, immutable')
    expect(response.headers.get('content-type')).toBe('text/javascript; charset=utf-8')
    expect(response.headers.get('content-encoding') ?? 'identity').toBe(coding)
    expect(response.headers.get('vary')).toContain('Accept-Encoding')
    expect(await response.text()).toBe("console.info('app')\n")
  }
})

it('HEAD has the headers of GET, and other methods are refused', async () => {
  const head = await ask(hashed, { method: 'HEAD', headers: { 'accept-encoding': 'identity' } })
  expect([head.status, head.headers.get('content-length'), await head.text()]).toEqual([200, '20', ''])
  const post = await ask(hashed, { method: 'POST' })
  expect([post.status, post.headers.get('allow')]).toEqual([405, 'GET, HEAD'])
})

it('any other path gets the fallback, except in folders that exist', async () => {
  for (const path of ['/reports/', '/reports/apis/a/v1/things/a.js', '/reports/a%2Fb'])
    expect([path, await (await ask(path)).text()]).toEqual([path, expect.stringContaining('<title>Reports')])
  expect((await ask('/reports/assets/app-OLDOLDOL.js')).status).toBe(404)
  expect((await ask('/plain/none')).status).toBe(404)
  expect(await (await ask('/plain/note.txt')).text()).toBe('note\n')
})

it.each([
  '/plain/../secret.txt',
  '/plain/..%2fsecret.txt',
  '/plain/%2e%2e/secret.txt',
  '/plain/..%5csecret.txt',
  '/plain//etc/passwd',
  '/plain/assets/../../secret.txt',
  '/plain/link.txt',
  '/plain/note.txt%00',
  '/plain/constructor',
  '/plain/assets/app-ABCDEFGH.js.br',
])('%s leads out of the folder, and is not found', async path => {
  // fetch would resolve the dots.
  const asked = request({ port: server.port, path: `/x${path}`, host: '127.0.0.1' }).end()
  const [response] = await once(asked, 'response')
  response.resume()
  expect([400, 401, 404]).toContain(response.statusCode)
})

it('pages go with their plugin', async () => {
  await api.mergePatch(`${pluginsPath}/pages`, { spec: { enabled: false } })
  await expect.poll(async () => (await ask('/reports')).status).toBe(401)
  await api.mergePatch(`${pluginsPath}/pages`, { spec: { enabled: true } })
  await expect.poll(async () => (await ask('/reports')).status).toBe(200)
})

describe('the console of the installation', () => {
  it('is left out on request', async () => {
    expect((await ask('/console')).status).toBe(401)
    expect((await ask('/', { headers: { accept: 'text/html' } })).status).toBe(401)
    expect(server.stdout()).not.toContain('console')
    expect(await (await ask('/docs')).text()).not.toContain('href="console"')
  })

  it('is there besides the plugins that are named, and is none of them', async () => {
    const own = await startSharedServer({ plugins })
    try {
      expect((await fetch(`${own.url}/console`)).status).toBe(200)
      const names = (await new Api(own.url).get(pluginsPath)).body
      expect(JSON.stringify(names)).not.toContain('console')
    } finally {
      await own.stop()
    }
  })

  it('has its address printed after the listening line of `npm start`', async () => {
    const dataDir = await mkdtemp(join(tmpdir(), 'setpoint-console-'))
    const running = spawnProgram(['serve', '--listen', '127.0.0.1:0', '--data-dir', dataDir])
    try {
      const [, url] = await running.says(/^setpoint listening on (\S+)\nconsole at \1\/console\n/)
      expect((await fetch(`${url}/console`)).status).toBe(200)
    } finally {
      await running.kill('SIGTERM')
      await rm(dataDir, { recursive: true, force: true })
    }
  })

  it('is below 400 KB for the first page, and every other file has a hash in its name', async () => {
    const own = await startSharedServer({ plugins })
    try {
      const get = (path: string) => fetch(new URL(path, `${own.url}/console/`))
      const page = await (await get('.')).text()
      const files = [...page.matchAll(/(?:href|src)="(assets\/[^"]+)"/g)].map(([, file = '']) => file)
      expect(files.length).toBeGreaterThan(3)
      let bytes = page.length
      for (const file of files) {
        expect(file).toMatch(/-[A-Z0-9]{8}\.\w+$/)
        const response = await fetch(new URL(file, `${own.url}/console/`), {
          method: 'HEAD',
          headers: { 'accept-encoding': 'gzip' },
        })
        expect(response.headers.get('cache-control')).toContain('immutable')
        bytes += Number(response.headers.get('content-length'))
      }
      expect(bytes).toBeLessThan(400_000)
    } finally {
      await own.stop()
    }
  })
})
