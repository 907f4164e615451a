import { once } from 'node:events'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { Api, objectOf } from './support/api.ts'
import { makeCertificates } from './support/certificates.ts'
import { fieldsOf } from './support/json.ts'
import { pluginsPath } from './support/kinds.ts'
import { type Exit, runProgram, startSharedServer } from './support/server.ts'
import { Users } from './support/users.ts'
import { copyFixture, startSharedWorld } from './support/worlds.ts'

/** `setpoint status` against running servers, over HTTP and HTTPS. */

/** Returns the URL of a server without plugins whose metrics are these. */
async function serverWith(metrics: string): Promise<string> {
  const server = createServer(({ url }, response) => {
    if (url === '/metrics') response.end(`setpoint_build_info{store="embedded",role="all"} 1\n${metrics}`)
    else response.end(url === '/readyz?verbose' ? 'ok' : '{"items":[]}')
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  onTestFinished(() => void server.close())
  const address = server.address()
  return `http://127.0.0.1:${typeof address === 'object' ? address?.port : address}`
}

function status(args: readonly string[]): Promise<Exit> {
  return runProgram(['status', ...args])
}

it('says that a healthy server is well, with its store and plugins', async () => {
  const plugin = await copyFixture('items-plugin')
  onTestFinished(() => rm(plugin, { recursive: true }))
  const server = await startSharedServer({ plugins: [plugin] })
  onTestFinished(async () => void (await server.stop()))
  const { code, stdout, stderr } = await status(['--server', server.url, '--output', 'json'])
  expect(JSON.parse(stdout)).toEqual({
    well: true,
    problems: [],
    servers: [
      {
        url: server.url,
        version: expect.stringMatching(/^\d+\.\d+\.\d+/),
        role: 'all',
        ready: true,
        leads: null,
        behind: 0,
        eventLoopSeconds: expect.any(Number),
      },
    ],
    leader: null,
    store: {
      kind: 'embedded',
      sizeBytes: expect.any(Number),
      usedBytes: expect.any(Number),
      quotaBytes: null,
      diskFreeBytes: expect.any(Number),
      full: false,
    },
    plugins: [
      {
        ...{ name: 'items', phase: 'Started', version: '1.0.0', message: 'its kinds are served' },
        ...{ reloadFailure: null, problems: [] },
      },
    ],
    certificates: [],
  })
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })

  const text = await status(['--server', server.url])
  expect(text).toMatchObject({ code: 0, stdout: expect.stringMatching(/^All is well\.\n\nSERVER +VERSION/) })
  expect(text.stdout).toMatch(/^items +Started +\S+ +0$/m)

  // The code that runs is not what the next start finds.
  await writeFile(join(plugin, 'index.js'), 'export default {')
  const api = new Api(server.url)
  const metric = async () =>
    /reload_failed\{plugin="items"\} (\d)/.exec((await api.get('/metrics')).text)?.[1]
  expect(await metric()).toBe('0')
  objectOf(await api.mergePatch(`${pluginsPath}/items`, { spec: { reload: 'broken' } }))
  await expect.poll(metric).toBe('1')
  const exit = () => status(['--server', server.url])
  await expect
    .poll(async () => (await exit()).stdout)
    .toMatch(/^Not well: the latest reload of the plugin items failed, and its previous code runs: .+\n\n/)
  await server.end()
  const stopped = await status(['--server', server.url])
  expect(stopped).toMatchObject({
    code: 1,
    stdout: expect.stringMatching(
      /^Not well: http:\S+ cannot be reached: .*ECONNREFUSED \S+; if it has another address, give that with --server\n/,
    ),
  })
})

it('names what is not well, and what the caller may not see, of several servers', async () => {
  const users = await Users.make({ ann: ['setpoint:admins'], nobody: [] })
  const certificates = await makeCertificates()
  const { ca, cert, key, folder } = certificates
  onTestFinished(async () => {
    await users.remove()
    await rm(folder, { recursive: true })
  })
  const world = await startSharedWorld('etcd', ['items-plugin', 'failing-plugin'], {
    args: [...users.args, '--tls-cert', cert, '--tls-key', key],
  })
  onTestFinished(() => world.end())
  const other = await world.another()
  const as = async (user: 'ann' | 'nobody') => {
    const token = join(folder, user)
    await writeFile(token, users.tokenOf(user), { mode: 0o600 })
    const servers = [world.server, other].flatMap(({ url }) => ['--server', url])
    const connection = ['--server-token-file', token, '--server-ca', ca]
    const exit = await status([...servers, ...connection, '--output', 'json'])
    expect(exit).toMatchObject({ code: 1, stderr: '' })
    return fieldsOf(JSON.parse(exit.stdout))
  }
  const seen = await as('ann')
  expect(seen).toMatchObject({
    well: false,
    servers: [
      { url: world.server.url, ready: true, leads: true, behind: expect.any(Number) },
      { url: other.url, ready: true, leads: false, behind: expect.any(Number) },
    ],
    leader: { lease: 'setpoint-controllers', holder: expect.any(String), renewedSeconds: expect.any(Number) },
    store: { kind: 'etcd', quotaBytes: expect.any(Number), full: false },
    plugins: [
      { name: 'failing', phase: 'Failed' },
      { name: 'items', phase: 'Started', problems: [] },
    ],
    certificates: [
      { server: world.server.url, certificate: 'server' },
      { server: other.url, certificate: 'server' },
    ],
  })
  expect(seen.problems).toEqual(
    expect.arrayContaining([
      expect.stringMatching(/^the plugin failing is Failed: /),
      // It is valid for two days.
      expect.stringMatching(`^the certificate server of ${other.url} expires at `),
    ]),
  )

  // Each lack has its remedy.
  const { url } = world.server
  expect((await status(['--server', url])).stdout).toMatch(
    /^Not well: \S+ cannot be reached: .*; give the CA certificates that have signed its certificate with --server-ca\n/,
  )
  expect((await status(['--server', url, '--server-ca', ca])).stdout).toMatch(
    /^Not well: \S+ responded to \/metrics with 401: .*; give a valid token with --server-token-file\n/,
  )
  expect((await status(['--server', url.replace('https', 'http')])).stdout).toMatch(
    /^Not well: \S+ cannot be reached: .*; if it has another address, give that with --server\n/,
  )

  const { problems } = await as('nobody')
  expect(problems).toEqual(
    expect.arrayContaining([
      expect.stringMatching(/ responded to \/metrics with 403: /),
      expect.stringMatching(/^the plugins are not known: .* with 403: /),
      expect.stringMatching(/^the leader is not known: .* with 403: /),
    ]),
  )

  await world.server.end()
  expect((await as('ann')).problems).toContainEqual(
    expect.stringMatching(`^${world.server.url} cannot be reached`),
  )
})

it('names an issuer that has failed for as long as the alert waits', async () => {
  const alerts = await readFile(new URL('../charts/setpoint/files/alerts.yaml', import.meta.url), 'utf8')
  const bound = Number(/setpoint_oidc_issuer_failing_seconds > (\d+)/.exec(alerts)?.[1])
  const failing = (seconds: number) =>
    serverWith(`setpoint_oidc_issuer_failing_seconds{issuer="https://login.example.com"} ${seconds}\n`)
  const late = await failing(bound + 1)
  expect(await status(['--server', late])).toMatchObject({
    code: 1,
    stdout: expect.stringContaining(
      `Not well: ${late} cannot fetch the keys of the issuer https://login.example.com; tokens signed by a key that it has not fetched`,
    ),
  })
  expect(await status(['--server', await failing(bound)])).toMatchObject({ code: 0, stderr: '' })
})

it('names files that fail for longer than two reads, long before any alert', async () => {
  const failing = (seconds: number) =>
    serverWith(
      ['token-file', 'tls-cert']
        .map(file => `setpoint_file_failing_seconds{file="${file}"} ${seconds}\n`)
        .join(''),
    )
  const url = await failing(4.1)
  const { code, stdout } = await status(['--server', url, '--output', 'json'])
  expect(fieldsOf(JSON.parse(stdout)).problems).toEqual([
    `${url} cannot reload the token file; after 10 minutes it refuses all tokens of the file`,
    `${url} cannot reload the files of --tls-cert; the old ones are in use`,
  ])
  expect(code).toBe(1)
  expect(await status(['--server', await failing(2.1)])).toMatchObject({ code: 0, stderr: '' })
})
