import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { get } from 'node:https'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createServer as createTlsServer } from 'node:tls'
import { fileURLToPath } from 'node:url'
import { type Client, createClient, Event, HttpTransport, until, waitFor } from '@setpoint/controller-runtime'
import { afterEach, describe, expect, test } from 'vitest'
import { Certificate, Issuer, KeyPair, RevocationList } from '../plugins/certificates/src/index.ts'
import { startEtcd } from './support/etcd.ts'
import { imports } from './support/imports.ts'
import { openssl } from './support/openssl.ts'
import { type RunningServer, spawnProgram, startSharedServer } from './support/server.ts'
import { type Store, stores } from './support/worlds.ts'

/** The built plugin in the built program. */
const patience = { timeoutMs: 240_000 }
const pathOf = (path: string) => fileURLToPath(new URL(`../plugins/certificates${path}`, import.meta.url))
const plugins = [pathOf('')]
const group = 'certificates.example.com/v1alpha1'

const cleanups: (() => Promise<unknown> | unknown)[] = []
afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean()
})

async function start(store: Store, args: readonly string[] = []): Promise<RunningServer> {
  const etcd = store === 'etcd' ? await startEtcd({ unsafeNoFsync: true }) : undefined
  cleanups.push(() => etcd?.stop())
  const server = await startSharedServer({
    store,
    plugins,
    args: ['--log-level', 'debug', ...args],
    ...(etcd && { etcd }),
  })
  cleanups.push(() => server.stop())
  return server
}

const clientOf = (url: string): Client => createClient(new HttpTransport({ server: url }))

/** Creates a root CA with its issuer, and waits until it can sign. */
async function createCA(client: Client): Promise<void> {
  await client.create(Issuer, { metadata: { name: 'selfsigned' }, spec: { selfSigned: {} } })
  const spec = { isCA: true, commonName: 'Root', issuerRef: { name: 'selfsigned' } }
  await client.create(Certificate, { metadata: { name: 'root' }, spec })
  await client.create(Issuer, { metadata: { name: 'ca' }, spec: { ca: { keyPairName: 'root' } } })
  await waitFor(client, Issuer, 'ca', until.condition('Ready'), patience)
}

function request(client: Client, name: string) {
  const spec = { dnsNames: ['localhost'], ipAddresses: ['127.0.0.1'], issuerRef: { name: 'ca' } }
  return client.create(Certificate, { metadata: { name }, spec })
}

const ready = (client: Client, name: string) =>
  waitFor(client, Certificate, name, until.condition('Ready'), patience)

describe.each(stores)('on %s', store => {
  test('a certificate verifies, serves TLS, and is revoked when it is deleted', async () => {
    const server = await start(store)
    const client = clientOf(server.url)
    const folder = await mkdtemp(join(tmpdir(), 'setpoint-certificates-'))
    cleanups.push(() => rm(folder, { recursive: true }))
    await createCA(client)
    const { status, metadata } = await request(client, 'web').then(() => ready(client, 'web'))

    // Times to come would be `<invalid>` as ages.
    const accept = 'application/json;as=Table;v=v1;g=meta.k8s.io'
    const table = await fetch(`${server.url}/apis/${group}/certificates/web`, { headers: { accept } })
    const shown = [status?.renewalTime, status?.notAfter]
    expect(await table.json()).toMatchObject({ rows: [{ cells: expect.arrayContaining(shown) }] })

    const route = (audience: string, path: string) => `${server.url}/apis/${audience}.${group}${path}`
    const download = async (file: string, url: string) => {
      const response = await fetch(url)
      const body = Buffer.from(await response.arrayBuffer())
      await writeFile(join(folder, file), body)
      return { type: response.headers.get('content-type'), text: body.toString() }
    }
    const chain = await download('chain.pem', route('uc.api', '/certificates/web/chain.pem'))
    const ca = await download('ca.pem', route('uc.api', '/certificates/web/ca.pem'))
    expect(chain.type).toBe('application/x-pem-file')
    await openssl(
      folder,
      'verify',
      '-x509_strict',
      '-CAfile',
      'ca.pem',
      '-verify_hostname',
      'localhost',
      'chain.pem',
    )

    const { privateKey } = (await client.get(KeyPair, 'web')).spec
    const tls = createTlsServer({ key: privateKey, cert: chain.text }, socket =>
      socket.end('HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok'),
    )
    await once(tls.listen(0, '127.0.0.1'), 'listening')
    cleanups.push(() => tls.close())
    const [answer] = await once(
      get({ host: '127.0.0.1', port: portOf(tls.address()), ca: ca.text }),
      'response',
    )
    expect(answer.statusCode).toBe(200)
    answer.resume()

    const verifyRevocation = async () => {
      const { type } = await download('crl.der', route('api', '/issuers/ca/crl'))
      expect(type).toBe('application/pkix-crl')
      await openssl(
        folder,
        'crl',
        '-inform',
        'DER',
        '-in',
        'crl.der',
        '-CAfile',
        'ca.pem',
        '-out',
        'copy.pem',
      )
      await download('crl.pem', route('api', '/issuers/ca/crl.pem'))
      await openssl(folder, 'verify', '-crl_check', '-CAfile', 'ca.pem', '-CRLfile', 'crl.pem', 'chain.pem')
    }
    await verifyRevocation()
    await client.delete(Certificate, 'web')
    await waitFor(client, Certificate, 'web', until.deleted(metadata.uid), patience)
    await expect(verifyRevocation()).rejects.toThrow(/certificate revoked/)
    expect((await client.get(RevocationList, 'ca')).spec.revoked).toMatchObject([{ serial: status?.serial }])
    await waitFor(client, KeyPair, 'web', until.deleted(), patience)

    const root = await client.get(KeyPair, 'root')
    const damaged = root.spec.privateKey.replace(/.{8}\n-----END/, '\n-----END')
    const brought = { ...root.spec, privateKey: damaged }
    await client.create(KeyPair, { metadata: { name: 'damaged' }, spec: brought })
    await client.create(Issuer, { metadata: { name: 'damaged' }, spec: { ca: { keyPairName: 'damaged' } } })
    await waitFor(client, Issuer, 'damaged', until.condition('Ready', 'False'), patience)
    const reasons = async () => (await client.list(Event)).items.map(({ reason }) => reason)
    await expect.poll(reasons).toEqual(expect.arrayContaining(['Issued', 'KeyUnreadable']))
    const summary = await fetch(route('console.api', '/summary'))
    const lists = await Promise.all([
      client.list(Event),
      client.list(Certificate),
      client.list(Issuer),
      client.list(RevocationList),
    ])
    await server.stop()
    const told = `${server.stdout()}${server.stderr()}${await summary.text()}${JSON.stringify(lists)}`
    const keys = `${root.spec.privateKey}${privateKey}`
      .split('\n')
      .filter(line => /^[\w+/=]{40,}$/.test(line))
    expect(keys.length).toBeGreaterThan(1)
    for (const line of keys) expect(told).not.toContain(line)
    expect(told).not.toContain('PRIVATE KEY')
  })

  test.each(['before', 'after'] as const)(
    'a process that is killed %s it stores a key leaves one key with one certificate',
    async moment => {
      const server = await start(store, ['--role', 'apiserver'])
      const client = clientOf(server.url)
      const proxy = await startStoppingProxy(server.port)
      cleanups.push(() => proxy.close())
      const run = async (url: string) => {
        const args = ['serve', '--role', 'controllers', '--server', url, '--plugin', pathOf('')]
        const process = spawnProgram(args)
        cleanups.push(() => process.kill())
        await process.says(/^setpoint controllers running/)
        return process
      }
      const first = await run(proxy.url)
      await createCA(client)
      const stopped = proxy.stopAt(`POST /apis/${group}/keypairs`, moment)
      await request(client, 'web')
      await stopped
      await first.kill('SIGKILL')
      const before = await client.getIfExists(KeyPair, 'web')
      expect(before === undefined).toBe(moment === 'before')

      await run(server.url)
      const { status } = await ready(client, 'web')
      const { items } = await client.list(KeyPair)
      expect(items.map(({ metadata }) => metadata.name).sort()).toEqual(['root', 'web'])
      const after = await client.get(KeyPair, 'web')
      if (before !== undefined) expect(after).toEqual(before)
      expect(status).not.toHaveProperty('superseded')
      expect(await client.get(KeyPair, 'web')).toEqual(after)
    },
  )
})

test('the X.509 library is not loaded before something is signed', () => {
  expect(imports(pathOf('/src/index.ts'), pathOf('/src/issuance.ts'))).toBe(true)
  expect(imports(pathOf('/src/index.ts'), pathOf('/src/x509.ts'))).toBe(false)
})

function portOf(address: AddressInfo | string | null): number {
  if (typeof address !== 'object' || address === null) throw new Error('the server does not listen')
  return address.port
}

/** A TCP proxy that stops one request of a kind, before it is sent or before its response is. */
async function startStoppingProxy(port: number) {
  const sockets = new Set<Socket>()
  let stop: { readonly line: string; readonly moment: 'before' | 'after'; reached(): void } | undefined
  const server = createServer(client => {
    const upstream = connect(port, '127.0.0.1')
    let isStopped = false
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(socket)
      socket.on('error', () => {}).on('close', () => other.destroy())
    }
    client.on('data', chunk => {
      isStopped ||= stop !== undefined && chunk.toString('latin1').startsWith(stop.line)
      if (isStopped && stop?.moment === 'before') stop.reached()
      else upstream.write(chunk)
    })
    upstream.on('data', chunk => {
      if (isStopped) stop?.reached()
      else client.write(chunk)
    })
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return {
    url: `http://127.0.0.1:${portOf(server.address())}`,
    /** Resolves when the request arrives, or after it has been carried out. */
    stopAt: (line: string, moment: 'before' | 'after') =>
      new Promise<void>(reached => {
        stop = { line, moment, reached }
      }),
    close() {
      for (const socket of sockets) socket.destroy()
      server.close()
    },
  }
}
