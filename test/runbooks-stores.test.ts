import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, it, onTestFinished } from 'vitest'
import { findEtcd, findEtcdctl, findNewerEtcd } from '../scripts/etcd.mjs'
import { Api } from './support/api.ts'
import { startEtcd, startEtcdCluster } from './support/etcd.ts'
import { smallQuota } from './support/etcd-space.ts'
import { killAtExit } from './support/kill-at-exit.js'
import { itemsOf } from './support/kinds.ts'
import { freePort, freePorts } from './support/ports.ts'
import { Runbook } from './support/runbook.ts'
import { Running, startSharedServer } from './support/server.ts'
import { need } from './support/tools.ts'
import { copyFixture } from './support/worlds.ts'

await need(findEtcdctl)

/** The runbooks of the stores, walked as they are written, with the real etcdctl. */

const programs = fileURLToPath(new URL('../node_modules/.bin', import.meta.url))

async function walk(name: string, url: string, endpoints: readonly string[], here = {}): Promise<Runbook> {
  return Runbook.open(name, {
    url,
    here,
    env: { ETCDCTL_ENDPOINTS: endpoints.join(','), ETCDCTL_API: '3' },
    path: [dirname(await findEtcdctl())],
  })
}

async function itemsPlugin(): Promise<string> {
  const folder = await copyFixture('items-plugin')
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return folder
}

it('etcd-without-quorum, and then no-controllers', async () => {
  const members = await startEtcdCluster(3, { unsafeNoFsync: true })
  onTestFinished(async () => void (await Promise.all(members.map(member => member.stop()))))
  const endpoints = members.map(({ endpoint }) => endpoint)
  const etcd = { endpoint: endpoints.join(',') }
  const server = await startSharedServer({ store: 'etcd', etcd, plugins: [await itemsPlugin()] })
  onTestFinished(async () => void (await server.stop()))
  const api = new Api(server.url)
  const runbook = await walk('etcd-without-quorum', server.url, endpoints)
  const [, two, three] = members
  await Promise.all([two?.kill(), three?.kill()])
  await expect.poll(async () => (await api.get('/readyz')).status).toBe(503)
  expect((await api.get('/metrics')).text).toContain('kubernetes_healthcheck{name="store",type="readyz"} 0')
  expect(await runbook.try('look')).toMatchObject({ code: 1 })
  await Promise.all([two?.restart(), three?.restart()])
  await expect.poll(async () => (await runbook.try('over')).code).toBe(0)
  await runbook.close()

  const controllers = await walk('no-controllers', server.url, endpoints)
  expect(await controllers.run('lease')).toMatch(/\n\S+ +\S+ +20\d\d-/)
  const renewed = await controllers.run('over')
  await expect.poll(() => controllers.run('over')).not.toBe(renewed)
  await controllers.close()
})

it('etcd-full', async () => {
  const etcd = await startEtcd({ binary: await findNewerEtcd(), unsafeNoFsync: true, flags: smallQuota })
  onTestFinished(() => etcd.stop())
  const server = await startSharedServer({ store: 'etcd', etcd, plugins: [await itemsPlugin()] })
  onTestFinished(async () => void (await server.stop()))
  const items = itemsOf(new Api(server.url))
  await items.create('large', {})
  for (let n = 0, status = 200; status === 200; n++) {
    const op = `${n}`.repeat(900_000 / `${n}`.length)
    status = (await items.api.mergePatch(items.at('large'), { spec: { op } })).status
  }
  const runbook = await walk('etcd-full', server.url, [etcd.endpoint])
  expect(await items.api.post(items.path, items.body('more', {}))).toMatchObject({
    status: 503,
    body: { message: expect.stringContaining('the store is full') },
  })
  expect((await items.api.get('/metrics')).text).toContain('setpoint_storage_full 1')
  await runbook.run('room')
  expect(await runbook.run('objects')).toContain('apiserver_resource_objects')
  expect(await runbook.run('over')).toBe(
    'configmap/room created\nconfigmap "room" deleted\nsetpoint_storage_full 0\n',
  )
  await runbook.close()
})

it('etcd-member-replaced', async () => {
  const members = await startEtcdCluster(3, { unsafeNoFsync: true })
  onTestFinished(async () => void (await Promise.all(members.map(member => member.stop()))))
  const [one, two, lost] = members
  if (one === undefined || two === undefined || lost === undefined) throw new Error('no members')
  const server = await startSharedServer({ store: 'etcd', etcd: one, plugins: [await itemsPlugin()] })
  onTestFinished(async () => void (await server.stop()))
  const items = itemsOf(new Api(server.url))
  await items.create('kept', {})
  await lost.stop()

  const [port, peerPort] = await freePorts(2)
  const peer = `http://127.0.0.1:${peerPort}`
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-member-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const runbook = await Runbook.open('etcd-member-replaced', {
    url: server.url,
    cwd: folder,
    // The members of the test are m0 to m2.
    here: { 'etcd-2': 'm2', 'https://etcd-3.example.com:2380': peer },
    env: { ETCDCTL_ENDPOINTS: [one, two].map(({ endpoint }) => endpoint).join(','), ETCDCTL_API: '3' },
    path: [dirname(await findEtcdctl())],
  })
  await runbook.run('replace')
  const env = Object.fromEntries(
    [...(await readFile(join(folder, 'new-member.env'), 'utf8')).matchAll(/^(\w+)="(.*)"$/gm)].map(
      ([, name = '', value = '']) => [name, value],
    ),
  )
  expect(env).toMatchObject({ ETCD_NAME: 'etcd-3', ETCD_INITIAL_CLUSTER_STATE: 'existing' })
  const member = await startMember(join(folder, 'data'), `http://127.0.0.1:${port}`, peer, env)
  onTestFinished(async () => {
    const exited = once(member, 'exit')
    member.kill('SIGKILL')
    await exited
  })
  // Its successor is a voter: with it, another one may fail.
  await expect.poll(() => runbook.run('over')).toMatch(/started, etcd-3, [\s\S]*etcd-3|127\.0\.0\.1/)
  await expect.poll(async () => (await runbook.try('over')).code).toBe(0)
  await two.kill()
  await expect
    .poll(async () => (await items.api.mergePatch(items.at('kept'), { spec: { op: 'x' } })).status)
    .toBe(200)
  await runbook.close()
})

/** Starts a member with the environment that `etcdctl member add` prints. */
async function startMember(
  dataDir: string,
  client: string,
  peer: string,
  env: Readonly<Record<string, string>>,
): Promise<ChildProcess> {
  const urls = ['--listen-client-urls', client, '--advertise-client-urls', client, '--listen-peer-urls', peer]
  const args = ['--data-dir', dataDir, '--unsafe-no-fsync', '--log-level', 'error', ...urls]
  const child = spawn(await findEtcd(), args, { stdio: 'ignore', env: { PATH: process.env.PATH, ...env } })
  killAtExit(child)
  await once(child, 'spawn')
  return child
}

it('disk-full', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'setpoint-disk-'))
  onTestFinished(() => rm(dataDir, { recursive: true, force: true }))
  const plugin = await itemsPlugin()
  const port = await freePort()
  const serve = `setpoint serve --listen 127.0.0.1:${port} --data-dir '${dataDir}' --plugin '${plugin}'`
  // A disk that only the server and the commands of the page see, which needs no root.
  const server = new Running(
    [
      '--map-root-user',
      '--mount',
      'bash',
      '-c',
      `mount -t tmpfs -o size=64m tmpfs '${dataDir}' && exec ${serve}`,
    ],
    { program: 'unshare', env: { PATH: [programs, process.env.PATH].join(delimiter) } },
  )
  onTestFinished(async () => void (await server.kill()))
  await server.says(/^setpoint listening on/)
  const url = `http://127.0.0.1:${port}`
  const items = itemsOf(new Api(url))
  await expect.poll(async () => (await items.api.get(items.path)).status).toBe(200)
  await items.create('large', {})
  const write = async (n: number) =>
    items.api.mergePatch(items.at('large'), { spec: { op: `${n}`.repeat(900_000 / `${n}`.length) } })
  for (let n = 0, status = 200; status === 200; n++) status = (await write(n)).status
  const enter = `nsenter --target ${server.child.pid} --user --preserve-credentials --mount`
  const runbook = await Runbook.open('disk-full', {
    url,
    here: { '/srv/setpoint/data': dataDir, '/srv/setpoint': dataDir },
    functions: `df() { ${enter} df "$@"; }\ndu() { ${enter} du "$@"; }`,
  })
  expect(await runbook.run('look')).toMatch(/ (9\d|100)% /)
  expect(await write(0)).toMatchObject({
    status: 503,
    body: { message: expect.stringContaining('the disk is full') },
  })
  expect((await items.api.get('/metrics')).text).toContain('setpoint_storage_full 1')
  await promisify(execFile)('bash', ['-c', `${enter} mount -o remount,size=256m '${dataDir}'`])
  expect(await runbook.run('over')).toMatch(/setpoint_storage_full 0\n/)
  await runbook.close()
})
