import { once } from 'node:events'
import { readFile, rename, rm, writeFile } from 'node:fs/promises'
import https from 'node:https'
import { join } from 'node:path'
import { connect, type TLSSocket } from 'node:tls'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { WebSocket } from 'ws'
import { type Certificates, type ClientCertificate, makeCertificates } from './support/certificates.ts'
import { fieldsOf, textOf } from './support/json.ts'
import { type RunningServer, runProgram, startSharedServer } from './support/server.ts'
import { copyFixture } from './support/worlds.ts'

const itemsPath = '/apis/items.example.com/v1/items'

/** Requests over one connection, as long as the server keeps it open. */
class Connection {
  readonly #agent: https.Agent
  readonly #url: string

  constructor(url: string, ca: string, certificate?: ClientCertificate) {
    this.#agent = new https.Agent({ keepAlive: true, maxSockets: 1, ca, ...certificate })
    this.#url = url
  }

  async send(method: string, path: string, headers: Record<string, string> = {}) {
    const sent = https.request(`${this.#url}${path}`, { method, agent: this.#agent, headers })
    const isSame = () => sent.reusedSocket
    const [response] = await once(sent.end(), 'response')
    let text = ''
    for await (const part of response.setEncoding('utf8')) text += part
    const { message = '' } = response.statusCode < 400 ? {} : fieldsOf(JSON.parse(text))
    return { status: response.statusCode, message: textOf(message), isSame: isSame() }
  }

  close(): void {
    this.#agent.destroy()
  }
}

describe('with --client-ca', () => {
  let own: Certificates
  let foreign: Certificates
  let clientCa: string
  let plugin: string
  let server: RunningServer
  let ca: string
  let token: string
  const connections: Connection[] = []

  beforeAll(async () => {
    ;[own, foreign] = await Promise.all([makeCertificates(), makeCertificates()])
    ca = await readFile(own.ca, 'utf8')
    clientCa = join(own.folder, 'clients.pem')
    await writeFile(clientCa, ca)
    const tokenFile = join(own.folder, 'tokens.yaml')
    const admin = ['--user', 'tim', '--group', 'setpoint:admins']
    const made = await runProgram(['token', ...admin, '--token-file', tokenFile])
    token = made.stdout.trim()
    plugin = await copyFixture('items-plugin')
    const tls = ['--tls-cert', own.cert, '--tls-key', own.key, '--client-ca', clientCa]
    server = await startSharedServer({ plugins: [plugin], args: [...tls, '--token-file', tokenFile] })
  })
  afterAll(async () => {
    for (const connection of connections) connection.close()
    await server?.stop()
    const folders = [own?.folder, foreign?.folder, plugin]
    await Promise.all(folders.map(folder => folder && rm(folder, { recursive: true, force: true })))
  })

  function open(certificate?: ClientCertificate): Connection {
    const connection = new Connection(server.url, ca, certificate)
    connections.push(connection)
    return connection
  }

  const trust = async (text: string) => {
    await writeFile(`${clientCa}.new`, text)
    await rename(`${clientCa}.new`, clientCa)
  }

  it('the common name is the user, and the organizations are its groups', async () => {
    const viewer = open(await own.client('/O=others/O=setpoint:viewers/CN=vic'))
    expect(await viewer.send('GET', itemsPath)).toMatchObject({ status: 200 })
    const refused = await viewer.send('DELETE', `${itemsPath}/a`)
    expect([refused.status, refused.isSame]).toEqual([403, true])
    expect(refused.message).toContain('"vic"')
    const admin = open(await own.client('/CN=ann/O=setpoint:admins'))
    expect(await admin.send('DELETE', `${itemsPath}/a`)).toMatchObject({ status: 404 })
  })

  it.each<[string, () => Promise<ClientCertificate | undefined>, string]>([
    ['no certificate', async () => undefined, 'a client certificate or a token is required'],
    [
      'a certificate of another CA',
      () => foreign.client('/CN=ann/O=setpoint:admins'),
      'the client certificate is not accepted: ',
    ],
    ['an expired certificate', () => own.client('/CN=ann/O=setpoint:admins', 0), 'CERT_HAS_EXPIRED'],
    ['a certificate without a name', () => own.client('/O=setpoint:admins'), 'needs one common name'],
    [
      'a certificate with two names',
      () => own.client('/CN=ann/CN=vic/O=setpoint:admins'),
      'needs one common',
    ],
  ])('%s gets 401, and may have a token', async (_which, make, message) => {
    const connection = open(await make())
    const refused = await connection.send('GET', itemsPath)
    expect(refused.status).toBe(401)
    expect(refused.message).toContain(message)
    const authorization = `Bearer ${token}`
    expect(await connection.send('GET', itemsPath, { authorization })).toMatchObject({ status: 200 })
    expect(await connection.send('GET', itemsPath, { authorization: 'Bearer x' })).toMatchObject({
      status: 401,
    })
    expect(await connection.send('GET', '/livez')).toMatchObject({ status: 200, isSame: true })
  })

  it('a session is never resumed, because its certificate would not be verified again', async () => {
    const { port } = server
    const certificate = await own.client('/CN=ann/O=setpoint:admins')
    const dial = async (session?: Buffer) => {
      const socket = connect({ host: '127.0.0.1', port, ca, ...certificate, ...(session && { session }) })
      await once(socket, 'secureConnect')
      return socket
    }
    const get = async (socket: TLSSocket) => {
      socket.write('GET /version HTTP/1.1\r\nhost: x\r\n\r\n')
      await once(socket, 'data')
    }
    const first = await dial()
    const tickets: Buffer[] = []
    first.on('session', ticket => tickets.push(ticket))
    await get(first)
    const second = await dial(tickets.at(-1) ?? first.getSession())
    await get(second)
    expect(second.isSessionReused()).toBe(false)
    for (const socket of [first, second]) socket.destroy()
  })

  it('a CA that is taken away ends open connections and watches', async () => {
    const certificate = await own.client('/CN=ann/O=setpoint:admins')
    const other = await foreign.client('/CN=bob/O=setpoint:admins')
    const connection = open(certificate)
    expect(await connection.send('GET', itemsPath)).toMatchObject({ status: 200 })
    const socket = new WebSocket(`${server.url.replace('https', 'wss')}${itemsPath}`, { ca, ...certificate })
    await once(socket, 'open')
    const closed = once(socket, 'close')
    const withBoth = async () => (await open(other).send('GET', itemsPath)).status
    const foreignCa = await readFile(foreign.ca, 'utf8')
    expect(await withBoth()).toBe(401)

    await trust(ca + foreignCa)
    await expect.poll(withBoth, { timeout: 60_000 }).toBe(200)
    expect(await connection.send('GET', itemsPath)).toMatchObject({ status: 200, isSame: true })
    expect(socket.readyState).toBe(WebSocket.OPEN)

    await trust('nonsense')
    await expect
      .poll(() => server.stderr(), { timeout: 60_000 })
      .toContain('failed to reload the certificate')
    expect(await connection.send('GET', itemsPath)).toMatchObject({ status: 200, isSame: true })

    await trust(foreignCa)
    expect((await closed)[0]).toBe(1008)
    const refused = await connection.send('GET', itemsPath)
    expect(refused).toMatchObject({ status: 401, isSame: true })
    expect(refused.message).toBe('the authority of the client certificate is not accepted')
    expect(await open(certificate).send('GET', itemsPath)).toMatchObject({ status: 401 })
    expect(await withBoth()).toBe(200)

    await trust(ca)
    await expect
      .poll(async () => (await connection.send('GET', itemsPath)).status, { timeout: 60_000 })
      .toBe(200)
  })

  it('attempts are counted by method and result', async () => {
    const admin = new https.Agent({ ca, ...(await own.client('/CN=ann/O=setpoint:admins')) })
    const [response] = await once(https.get(`${server.url}/metrics`, { agent: admin }), 'response')
    let text = ''
    for await (const part of response.setEncoding('utf8')) text += part
    admin.destroy()
    for (const [method, result] of [
      ['certificate', 'success'],
      ['certificate', 'failure'],
      ['token-file', 'success'],
      ['token-file', 'failure'],
      ['none', 'failure'],
    ])
      expect(text).toMatch(
        new RegExp(`^authentication_attempts{method="${method}",result="${result}"} [1-9]`, 'm'),
      )
  })
})
