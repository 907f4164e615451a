import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import https from 'node:https'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type PeerCertificate, TLSSocket } from 'node:tls'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { WebSocket } from 'ws'
import { Api, objectOf, refusalOf } from './support/api.ts'
import { type Certificates, makeCertificates } from './support/certificates.ts'
import { itemsOf } from './support/kinds.ts'
import { multiplexProtocol } from './support/multiplex.ts'
import { pluginModule, writePlugin } from './support/plugins.ts'
import {
  runProgram,
  type ServerProcess,
  spawnProgram,
  startServer,
  startSharedServer,
} from './support/server.ts'
import { refusedWatch, Watch } from './support/watch.ts'
import { copyFixture, eventually } from './support/worlds.ts'

const itemsPath = '/apis/items.example.com/v1/items'

/** Creates a token with the command line. */
async function makeToken(user: string, ...groups: string[]): Promise<{ token: string; entry: string }> {
  const { code, stdout, stderr } = await runProgram([
    'token',
    '--user',
    user,
    ...groups.flatMap(group => ['--group', group]),
  ])
  expect(code).toBe(0)
  const token = /: (\S+)\n$/.exec(stderr)?.[1] ?? ''
  expect(token.length).toBeGreaterThan(40)
  expect(stdout).not.toContain(token)
  return { token, entry: stdout }
}

const bearer = (token: string) => ({ authorization: `Bearer ${token}` })
const protocolOf = (token: string) =>
  `base64url.bearer.authorization.k8s.io.${Buffer.from(token).toString('base64url')}`

describe('with a file of tokens', () => {
  let folder: string
  let tokenFile: string
  let plugin: string
  let server: ServerProcess
  let admin: { token: string; entry: string }
  let viewer: { token: string; entry: string }
  let leaving: { token: string; entry: string }
  let api: Api

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'setpoint-tokens-'))
    tokenFile = join(folder, 'tokens.yaml')
    plugin = await copyFixture('items-plugin')
    admin = await makeToken('ann', 'setpoint:admins')
    viewer = await makeToken('vic', 'setpoint:viewers')
    leaving = await makeToken('leo', 'setpoint:viewers')
    await writeFile(tokenFile, admin.entry + viewer.entry + leaving.entry)
    server = await startServer({ plugins: [plugin], args: ['--token-file', tokenFile] })
    api = new Api(server.url)
  })
  afterAll(async () => {
    await server?.stop()
    await Promise.all([folder, plugin].map(dir => rm(dir, { recursive: true, force: true })))
  })

  const put = async (text: string) => {
    // Replaces the file by a rename, as editors and secret mounts do.
    await writeFile(`${tokenFile}.new`, text)
    await rename(`${tokenFile}.new`, tokenFile)
  }

  it.each([
    itemsPath,
    `${itemsPath}/a`,
    `${itemsPath}?watch=true`,
    '/apis',
    '/apis/items.example.com/v1',
    '/apis/nothing.example.com/v1/there',
    '/metrics',
    '/nowhere',
  ])('%s is 401 without a token or with a wrong one, whatever it is', async path => {
    for (const headers of [
      {},
      bearer('wrong'),
      { authorization: 'Basic YTpi' },
      { authorization: admin.token },
      bearer(`${admin.token}x`),
    ]) {
      const answer = await api.get(path, { headers })
      refusalOf(answer, 401)
      expect(answer.headers.get('www-authenticate')).toMatch(/^Bearer/)
      expect(answer.text).not.toContain(admin.token)
    }
  })

  it('health and version need no token, because probes have none', async () => {
    for (const path of ['/livez', '/readyz', '/healthz', '/version']) {
      expect((await api.get(path)).status).toBe(200)
      expect((await api.get(path, { headers: bearer('wrong') })).status).toBe(200)
    }
  })

  it('admins may do everything', async () => {
    const headers = bearer(admin.token)
    const body = itemsOf(api).body('by-ann', {})
    objectOf(await api.post(itemsPath, body, { headers }), 201)
    expect((await api.get('/metrics', { headers })).status).toBe(200)
    expect((await api.get('/apis', { headers })).status).toBe(200)
    objectOf(await api.delete(`${itemsPath}/by-ann`, undefined, { headers }))
  })

  it('viewers may get, list and watch, and nothing else', async () => {
    const headers = bearer(viewer.token)
    for (const path of [itemsPath, '/apis', '/metrics'])
      expect((await api.get(path, { headers })).status).toBe(200)
    refusalOf(await api.get(`${itemsPath}/none`, { headers }), 404)
    const body = itemsOf(api).body('a', {})
    const refused = [
      await api.post(itemsPath, body, { headers }),
      await api.put(`${itemsPath}/a`, body, { headers }),
      await api.mergePatch(`${itemsPath}/a`, {}, { headers }),
      await api.delete(`${itemsPath}/a`, undefined, { headers }),
      await api.delete(itemsPath, undefined, { headers }),
    ]
    const verbs = ['create', 'update', 'patch', 'delete', 'deletecollection']
    for (const [at, answer] of refused.entries()) {
      const verb = verbs[at] ?? ''
      const subject = ['create', 'deletecollection'].includes(verb) ? '' : ' "a"'
      expect(refusalOf(answer, 403).message).toBe(
        `items.items.example.com${subject} is forbidden: User "vic" cannot ${verb} resource "items" in API group "items.example.com" at the cluster scope`,
      )
    }
    const watch = await Watch.open(server.url, itemsPath, { headers })
    await watch.synced()
    await watch.close()
  })

  it("a route's handler does not get its caller's credentials", async () => {
    const setup = `plugin.routes('echo.example.com/v1', r =>
      r.get('/headers', ({ headers, user }) => ({ body: { headers, user: user.name } })))`
    const echo = await writePlugin({ 'index.js': pluginModule('echo', { setup }) })
    const other = await startSharedServer({ plugins: [echo], args: ['--token-file', tokenFile] })
    try {
      const headers = {
        'proxy-authorization': 'Basic YTpi',
        cookie: 'session=1',
        'sec-websocket-protocol': `${protocolOf(viewer.token)}, x`,
        'x-own': 'shown',
      }
      for (const [credentials, user] of [
        [bearer(admin.token), 'ann'],
        [{}, 'vic'],
      ] as const) {
        const answer = await new Api(other.url).get('/apis/echo.example.com/v1/headers', {
          headers: { ...headers, ...credentials },
        })
        expect(answer.body).toMatchObject({ user, headers: { 'x-own': 'shown' } })
        for (const name of ['authorization', ...Object.keys(headers).slice(0, 3)])
          expect(answer.body).not.toHaveProperty(['headers', name])
      }
    } finally {
      await other.stop()
      await rm(echo, { recursive: true, force: true })
    }
  })

  describe('a WebSocket', () => {
    it('without a token is refused with an HTTP 401', async () => {
      refusalOf(await refusedWatch(server.url, itemsPath), 401)
      refusalOf(await refusedWatch(server.url, '/apis', { 'sec-websocket-protocol': multiplexProtocol }), 401)
    })

    it('accepts the token as a sub-protocol next to a real one, and selects the real one', async () => {
      for (const [path, real] of [
        [itemsPath, 'events.example.com'],
        ['/apis', multiplexProtocol],
      ] as const) {
        const socket = new WebSocket(`${server.url.replace('http', 'ws')}${path}`, [
          protocolOf(viewer.token),
          real,
        ])
        await new Promise((resolve, reject) => socket.on('open', resolve).on('error', reject))
        expect(socket.protocol).toBe(real)
        socket.terminate()
      }
      const alone = await refusedWatch(server.url, itemsPath, {
        'sec-websocket-protocol': protocolOf(viewer.token),
      })
      expect(refusalOf(alone, 400).message).toContain('real one')
      const wrong = { 'sec-websocket-protocol': `${protocolOf('wrong')}, x` }
      refusalOf(await refusedWatch(server.url, itemsPath, wrong), 401)
    })
  })

  it('removing a token from the file closes its watches with 1008, and no others', async () => {
    const others = await Watch.open(server.url, itemsPath, { headers: bearer(admin.token) })
    const watch = await Watch.open(server.url, itemsPath, { headers: bearer(leaving.token) })
    const many = new WebSocket(`${server.url.replace('http', 'ws')}/apis`, multiplexProtocol, {
      headers: bearer(leaving.token),
    })
    await new Promise((resolve, reject) => many.on('open', resolve).on('error', reject))
    const closed = new Promise(resolve => many.on('close', resolve))
    const stream = await fetch(`${server.url}${itemsPath}?watch=true`, { headers: bearer(leaving.token) })
    expect(stream.status).toBe(200)
    await watch.synced()
    await put(admin.entry + viewer.entry)
    expect((await watch.closed).code).toBe(1008)
    expect(await closed).toBe(1008)
    await stream.text()
    refusalOf(await api.get(itemsPath, { headers: bearer(leaving.token) }), 401)
    const made = objectOf(
      await api.post(itemsPath, itemsOf(api).body('after', {}), { headers: bearer(admin.token) }),
      201,
    )
    await others.reaches(made.metadata.version)
    await others.close()
  })

  it('a half-written file changes nothing, and the log names the bad key', async () => {
    await put(`${admin.entry}- user: eve\n  groups: [setpoint:admins]\n  sha256: 12`)
    await eventually(() => expect(server.stderr()).toContain('[1].sha256 must be 64 hexadecimal digits'))
    expect((await api.get(itemsPath, { headers: bearer(viewer.token) })).status).toBe(200)
    const eve = await makeToken('eve', 'setpoint:viewers')
    await put(admin.entry + viewer.entry + eve.entry)
    await eventually(async () =>
      expect((await api.get(itemsPath, { headers: bearer(eve.token) })).status).toBe(200),
    )
  })

  it('controllers connect with a token in a file, and follow its renewal', async () => {
    const uptime = await copyFixture('demo-plugin')
    const other = await startSharedServer({
      plugins: [uptime],
      args: ['--token-file', tokenFile, '--role', 'apiserver'],
    })
    const secret = join(folder, 'controllers.token')
    const first = await makeToken('controllers', 'setpoint:controllers')
    const second = await makeToken('controllers', 'setpoint:controllers')
    await put(admin.entry + viewer.entry + first.entry)
    await writeFile(secret, `${first.token}\n`)
    const running = spawnProgram([
      ...['serve', '--role', 'controllers', '--server', other.url, '--server-token-file', secret],
      ...['--plugin', uptime],
    ])
    try {
      const otherApi = new Api(other.url)
      const headers = bearer(admin.token)
      const leads = async () => {
        const { body } = await otherApi.get('/apis/coordination.k8s.io/v1/leases', { headers })
        expect(JSON.stringify(body)).toContain('holderIdentity')
        return JSON.stringify(body)
      }
      const before = await eventually(leads)
      await writeFile(secret, `${second.token}\n`)
      await put(admin.entry + viewer.entry + second.entry)
      // The lease is renewed with the new token only.
      await eventually(async () => {
        const answer = await otherApi.get('/apis', { headers: bearer(first.token) })
        expect(answer.status).toBe(401)
      })
      await eventually(async () => expect(await leads()).not.toBe(before))
      const renewed = await leads()
      await eventually(async () => expect(await leads()).not.toBe(renewed))
      expect(running.stderr).not.toContain(first.token)
    } finally {
      await running.kill('SIGTERM')
      await other.stop()
      await rm(uptime, { recursive: true, force: true })
    }
  })

  it('no response or log line contains a token', async () => {
    await api.get(`/apis?token=${admin.token}`, { headers: bearer(admin.token) })
    const metrics = await api.get('/metrics', { headers: bearer(admin.token) })
    for (const { token } of [admin, viewer, leaving]) {
      expect(server.stderr()).not.toContain(token)
      expect(metrics.text).not.toContain(token)
    }
    const commandLine = await readFile(`/proc/${server.pid}/cmdline`, 'utf8').catch(() => '')
    expect(commandLine).not.toContain(admin.token)
  })
})

describe('with TLS', () => {
  let certificates: Certificates
  beforeEach(async () => {
    certificates = await makeCertificates()
  })
  afterEach(() => rm(certificates.folder, { recursive: true, force: true }))

  it('a server says at its start that its certificate has expired', async () => {
    const { cert, key } = await certificates.client('/CN=127.0.0.1', 0)
    await writeFile(certificates.cert, cert)
    await writeFile(certificates.key, key)
    const server = await startSharedServer({
      args: ['--tls-cert', certificates.cert, '--tls-key', certificates.key],
    })
    try {
      await eventually(() => expect(server.stderr()).toContain('the certificate has expired'))
      await certificates.renew()
      await eventually(() => expect(server.stderr()).toContain('reloaded the certificate'))
      expect(server.stderr().match(/has expired/g)).toHaveLength(1)
    } finally {
      await server.stop()
    }
  })

  it('requests and WebSockets are served, and a renewed certificate is used', async () => {
    const { ca, cert, key } = certificates
    const plugin = await copyFixture('items-plugin')
    const server = await startSharedServer({
      plugins: [plugin],
      args: ['--tls-cert', cert, '--tls-key', key],
    })
    try {
      expect(server.url).toMatch(/^https:/)
      const root = await readFile(ca)
      const first = await certificateOf(`${server.url}/livez`, root)
      const socket = new WebSocket(`${server.url.replace('https', 'wss')}${itemsPath}`, { ca: root })
      const event = await new Promise(resolve => socket.once('message', data => resolve(String(data))))
      expect(event).toContain('"BOOKMARK"')
      await certificates.renew()
      await eventually(async () => {
        const now = await certificateOf(`${server.url}/livez`, root)
        expect(now.serialNumber).not.toBe(first.serialNumber)
      })
      expect(socket.readyState).toBe(WebSocket.OPEN)
      await writeFile(cert, 'half a certificate')
      await eventually(() => expect(server.stderr()).toContain('failed to reload the certificate'))
      await certificateOf(`${server.url}/livez`, root)
      socket.terminate()
    } finally {
      await server.stop()
      await rm(plugin, { recursive: true, force: true })
    }
  })

  it('a stopping server does not wait for silent connections', async () => {
    const { cert, key } = certificates
    const server = await startSharedServer({ args: ['--tls-cert', cert, '--tls-key', key] })
    const silent = connect(server.port, '127.0.0.1')
    await once(silent, 'connect')
    const { code } = await server.stop()
    expect(code).toBe(0)
    expect(server.stderr()).not.toContain('cutting connections')
  })
})

/** Returns the server's certificate on a new connection. */
function certificateOf(url: string, ca: Buffer): Promise<PeerCertificate> {
  return new Promise((resolve, reject) => {
    https
      .get(url, { ca, agent: false }, response => {
        response.resume()
        expect(response.statusCode).toBe(200)
        if (response.socket instanceof TLSSocket) resolve(response.socket.getPeerCertificate())
      })
      .on('error', reject)
  })
}

describe('the output of `setpoint token`', () => {
  const tokenPattern = /^sp_[A-Za-z0-9_-]{43}$/

  it('`token` is the token alone on standard output, and the entry on standard error', async () => {
    const { code, stdout, stderr } = await runProgram(['token', '--user', 'ann', '--output', 'token'])
    expect(code).toBe(0)
    expect(stdout.replace(/\n$/, '')).toMatch(tokenPattern)
    const sha256 = createHash('sha256').update(stdout.trim()).digest('hex')
    expect(stderr).toBe(`- user: "ann"\n  groups: []\n  sha256: ${sha256}\n`)
  })

  it('`json` is one object on standard output, and nothing else', async () => {
    const args = ['token', '--user', 'vic', '--group', 'setpoint:viewers', '--output', 'json']
    const { code, stdout, stderr } = await runProgram(args)
    expect([code, stderr]).toEqual([0, ''])
    const { user, groups, sha256, token } = JSON.parse(stdout)
    expect({ user, groups }).toEqual({ user: 'vic', groups: ['setpoint:viewers'] })
    expect(token).toMatch(tokenPattern)
    expect(sha256).toBe(createHash('sha256').update(token).digest('hex'))
  })

  it('`entry` is the default', async () => {
    for (const output of [[], ['--output', 'entry']]) {
      const { code, stdout, stderr } = await runProgram(['token', '--user', 'ann', ...output])
      expect(code).toBe(0)
      expect(stdout).toMatch(/^- user: "ann"\n {2}groups: \[\]\n {2}sha256: [0-9a-f]{64}\n$/)
      expect(stderr).toMatch(/^The token of ann, which is not stored anywhere: sp_\S+\n$/)
    }
  })

  it('refuses any other value with one line and exit code 2', async () => {
    const { code, stdout, stderr } = await runProgram(['token', '--user', 'ann', '--output', 'yaml'])
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toBe('setpoint: --output: "yaml" is not one of entry, token, json\n')
  })

  it('is explained by --help', async () => {
    const { stdout } = await runProgram(['token', '--help'])
    expect(stdout).toContain('--output <entry|token|json>')
  })
})

describe('`setpoint token --token-file`', () => {
  let folder: string
  let file: string
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'setpoint-tokens-'))
    file = join(folder, 'tokens.yaml')
  })
  afterEach(() => rm(folder, { recursive: true, force: true }))

  const add = (user: string, ...args: string[]) =>
    runProgram(['token', '--user', user, '--token-file', file, ...args])
  const entryOf = (user: string, groups: string, token: string) =>
    `- user: "${user}"\n  groups: [${groups}]\n  sha256: ${createHash('sha256').update(token).digest('hex')}\n`

  it('makes a file that only its owner can read, appends further entries, and prints only tokens', async () => {
    const [ann, bob] = [await add('ann', '--group', 'setpoint:admins'), await add('bob')]
    for (const { code, stdout, stderr } of [ann, bob]) {
      expect([code, stderr]).toEqual([0, ''])
      expect(stdout).toMatch(/^sp_[A-Za-z0-9_-]{43}\n$/)
    }
    expect(await readFile(file, 'utf8')).toBe(
      entryOf('ann', '"setpoint:admins"', ann.stdout.trim()) + entryOf('bob', '', bob.stdout.trim()),
    )
    expect((await stat(file)).mode & 0o777).toBe(0o600)
    const json = await add('bob', '--output', 'json')
    expect(await readFile(file, 'utf8')).toContain(`sha256: ${JSON.parse(json.stdout).sha256}`)
  })

  it.each([
    ['without a last line end', `# people\n${entryOf('vic', '"g"', 'x').trimEnd()}`],
    ['whose list is empty', '[]\n'],
    ['that is empty', ''],
  ])('appends to a file %s', async (_, text) => {
    await writeFile(file, text, { mode: 0o640 })
    const { stdout } = await add('ann')
    const before = text === '[]\n' || text === '' ? '' : `${text}\n`
    expect(await readFile(file, 'utf8')).toBe(before + entryOf('ann', '', stdout.trim()))
    expect((await stat(file)).mode & 0o777).toBe(0o640)
  })

  it.each([
    ['is not a token file', 'npm warn deprecated\n', 'must be a list of {user, groups, sha256}'],
    ['is broken', '- user: [\n', 'is not valid YAML: see line 2'],
    [
      'has its list in brackets',
      JSON.stringify([{ user: 'vic', groups: ['g'], sha256: '0'.repeat(64) }]),
      'must have each entry on lines of its own that begin with "- user:"',
    ],
  ])('refuses a file that %s, and leaves it as it is', async (_, text, why) => {
    await writeFile(file, text)
    const { code, stdout, stderr } = await add('ann')
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toBe(`setpoint: --token-file: ${JSON.stringify(file)} ${why}; nothing was added\n`)
    expect(await readFile(file, 'utf8')).toBe(text)
  })

  it('prints no token if the file cannot be written', async () => {
    const { code, stdout, stderr } = await add('ann', '--token-file', join(folder, 'none', 'tokens.yaml'))
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).toMatch(/^setpoint: ".*none\/tokens\.yaml" cannot be written: ENOENT.*\n$/)
  })
})
