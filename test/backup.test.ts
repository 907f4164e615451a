import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { createClient, defineModel, HttpTransport, Informer } from '@setpoint/controller-runtime'
import { load } from 'js-yaml'
import { expect, it, onTestFinished } from 'vitest'
import { findNewerEtcd } from '../scripts/etcd.mjs'
import { Api } from './support/api.ts'
import { blocksOf, type DocBlock, fileOf } from './support/doc-blocks.ts'
import { startEtcd } from './support/etcd.ts'
import { restoreSnapshot, saveSnapshot } from './support/etcd-snapshot.ts'
import { KubernetesObject, type Pod, pick, podOf, release, render } from './support/helm.ts'
import { fieldsOf, textOf } from './support/json.ts'
import { itemsOf } from './support/kinds.ts'
import { startSharedServer } from './support/server.ts'
import { Watch } from './support/watch.ts'
import { copyFixture } from './support/worlds.ts'

/** docs/operations/backup.md: its commands, and what it says about clients. */

const page = 'docs/operations/backup.md'
const blocks = blocksOf(page, await readFile(fileURLToPath(new URL(`../${page}`, import.meta.url)), 'utf8'))

function blockWith(isIt: (block: DocBlock) => boolean): string {
  const found = blocks.find(isIt)
  if (found === undefined) throw new Error(`${page} has no such block`)
  return found.text
}

const marked = (mark: string) => blockWith(({ marks }) => marks.includes(mark))

async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-backup-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return folder
}

async function itemsPlugin(): Promise<string> {
  const folder = await copyFixture('items-plugin')
  onTestFinished(() => rm(folder, { recursive: true }))
  return folder
}

const Item = defineModel({
  group: 'items.example.com',
  version: 'v1',
  kind: 'Item',
  singular: 'item',
  plural: 'items',
  schema: { spec: { type: 'object', properties: { rank: { type: 'string' } } } },
})

it('a snapshot of etcd restored with the flags of the page gives out no version twice, and every client lists again', async () => {
  const folder = await temporaryFolder()
  const dataDir = join(folder, 'etcd')
  const snapshot = join(folder, 'setpoint.db')
  const etcd = await startEtcd({ dataDir, binary: await findNewerEtcd(), unsafeNoFsync: true })
  onTestFinished(() => etcd.stop())
  const server = await startSharedServer({ store: 'etcd', etcd, plugins: [await itemsPlugin()] })
  onTestFinished(async () => void (await server.stop()))
  const items = itemsOf(new Api(server.url))
  const transport = new HttpTransport({ server: server.url })
  const informer = new Informer(Item, { client: createClient(transport) })
  onTestFinished(async () => {
    await informer.stop()
    transport.close()
  })
  await items.create('kept', { rank: '1' })
  await items.create('changed', { rank: '1' })
  await saveSnapshot(etcd, snapshot)

  const lost = await items.create('lost', { rank: '1' })
  const changed = await items.api.mergePatch(items.at('changed'), { spec: { rank: '2' } })
  informer.start()
  await informer.synced
  const live = await Watch.open(server.url, `${items.path}?version=${lost.metadata.version}`)
  const { version: present } = await items.list()
  await etcd.kill()
  await rm(dataDir, { recursive: true })
  const flags = /--bump-revision \d+ --mark-compacted/.exec(marked('etcd-restore'))?.[0] ?? ''
  await restoreSnapshot(snapshot, dataDir, flags.split(' '))
  await etcd.restart()

  // The server was not stopped before, as the page asks. It refuses the other store until it is restarted.
  await expect.poll(() => items.api.get('/readyz').then(({ status }) => status)).toBe(503)
  expect(await items.api.get(items.path)).toMatchObject({ status: 503 })
  await server.restart()
  await live.closed
  await expect.poll(() => items.api.get('/readyz').then(({ status }) => status)).toBe(200)
  const resumed = await Watch.open(server.url, `${items.path}?version=${lost.metadata.version}`)
  expect(await resumed.closed).toMatchObject({ code: 4410 })
  expect((await items.list()).items.map(({ metadata, spec }) => [metadata.name, spec.rank]).sort()).toEqual([
    ['changed', '1'],
    ['kept', '1'],
  ])
  await expect
    .poll(() =>
      informer
        .list()
        .map(({ metadata }) => metadata.name)
        .sort(),
    )
    .toEqual(['changed', 'kept'])
  // More writes than were lost: without the flags the versions of the lost ones are taken again.
  const written: number[] = []
  for (let n = 0; n < 10; n++) {
    const { metadata } = await items.create(`new-${n}`, { rank: '1' })
    written.push(Number(metadata.version))
  }
  expect(Math.min(...written)).toBeGreaterThan(Number(present))
  const away = await Watch.open(server.url, `${items.path}?version=${present}`)
  expect(await away.closed).toMatchObject({ code: 4410 })
  expect(await items.api.put(items.at('changed'), changed.body)).toMatchObject({ status: 409 })
  await expect.poll(() => informer.list().length).toBe(12)
})

it('a copy of the folder of a stopped server is the store of then', async () => {
  const folder = await temporaryFolder()
  await mkdir(join(folder, 'data'))
  const plugins = [await itemsPlugin()]
  const running = () => startSharedServer({ dataDir: join(folder, 'data'), plugins })
  const bash = (script: string) =>
    promisify(execFile)('bash', ['-c', `set -euo pipefail\n${script}`], { cwd: folder })
  const first = await running()
  const kept = await itemsOf(new Api(first.url)).create('kept', { rank: '1' })
  await first.stop()
  await bash(marked('embedded-backup'))
  const second = await running()
  await itemsOf(new Api(second.url)).create('lost', { rank: '1' })
  await second.stop()
  await bash(marked('embedded-restore'))
  const third = await running()
  onTestFinished(async () => void (await third.stop()))
  const { items } = await itemsOf(new Api(third.url)).list()
  expect(items.map(({ raw }) => raw)).toEqual([kept.raw])
})

it("the pod that restores a member of the chart's etcd has the member's names, folder, volume, user and image", async () => {
  const { objects } = await render({})
  const set = objects.find(({ kind }) => kind === 'StatefulSet')
  if (set?.pod === undefined) throw new Error('the chart has no StatefulSet')
  // The page is about a release `setpoint` in the namespace `setpoint`.
  const named = (text: string) =>
    text.replaceAll(release.fullname, 'setpoint').replaceAll(`.${release.namespace}.svc`, '.setpoint.svc')
  const text = blockWith(block => fileOf(block) === 'etcd-restore.yaml').replaceAll('-N', '-1')
  const restore = new KubernetesObject({
    kind: 'Pod',
    metadata: {},
    spec: fieldsOf(fieldsOf(load(text)).spec),
  })
  const flagsOf = (args: readonly string[]) =>
    new Map(
      args.map(arg => [
        arg.slice(0, arg.indexOf('=')),
        named(arg).replaceAll('$(POD_NAME)', 'setpoint-etcd-1'),
      ]),
    )
  const member = flagsOf(set.pod.args)
  const token = '--initial-cluster-token'
  member.set(token, `${member.get(token)?.replace(/-ns$/, '-setpoint')}`)
  const args = restore.pod?.args ?? []
  for (const [flag, arg] of flagsOf(args.filter(arg => !/bump|mark/.test(arg))))
    expect(arg).toBe(member.get(flag))
  expect(args).toEqual(expect.arrayContaining(['--bump-revision=1000000000', '--mark-compacted']))
  expect(restore.pod?.container.image).toBe(set.pod.container.image)
  expect(text).toContain('claimName: data-setpoint-etcd-1')
  for (const id of ['runAsUser', 'runAsGroup', 'fsGroup'])
    expect(fieldsOf(restore.pod?.spec.securityContext)[id]).toBe(fieldsOf(set.pod.spec.securityContext)[id])
})

it('the pod that restores a backup of the chart reaches etcd as the servers do, and has the volume of the backups', async () => {
  const { objects } = await render({ backup: { enabled: true } })
  const named = (text: string) =>
    text.replaceAll(release.fullname, 'setpoint').replaceAll(`.${release.namespace}.svc`, '.setpoint.svc')
  const servers = podOf(objects, 'Deployment', release.fullname)
  const { metadata, spec } = fieldsOf(load(blockWith(block => fileOf(block) === 'setpoint-restore.yaml')))
  const pod = new KubernetesObject({ kind: 'Pod', metadata: {}, spec: fieldsOf(spec) }).pod
  const settings = new Map(pod?.env.map(({ name, value }) => [textOf(name), textOf(value)]))
  for (const flag of ['etcd-endpoints', 'etcd-prefix', 'etcd-ca', 'etcd-cert', 'etcd-key']) {
    const variable = `SETPOINT_${flag.toUpperCase().replaceAll('-', '_')}`
    expect(settings.get(variable)).toBe(named(servers.flag(flag) ?? ''))
  }
  const volumeAt = (mounts: Pod['mounts'] = [], path: string) =>
    fieldsOf(mounts.find(mount => mount.path === path)?.volume)
  const secretAt = (mounts: Pod['mounts'] | undefined) =>
    fieldsOf(volumeAt(mounts, '/etc/setpoint/etcd').secret).secretName
  expect(secretAt(pod?.mounts)).toBe(named(textOf(secretAt(servers.mounts))))
  const { persistentVolumeClaim } = volumeAt(pod?.mounts, '/backups')
  const claim = pick(objects, 'PersistentVolumeClaim', `${release.fullname}-backups`).name
  expect(persistentVolumeClaim).toEqual({ claimName: named(claim) })
  // The NetworkPolicy of etcd admits pods with these labels.
  const labels = fieldsOf(fieldsOf(metadata).labels)
  expect({ ...servers.labels, 'app.kubernetes.io/instance': 'setpoint' }).toMatchObject(labels)
  for (const id of ['runAsUser', 'runAsGroup', 'fsGroup'])
    expect(fieldsOf(pod?.spec.securityContext)[id]).toBe(fieldsOf(servers.spec.securityContext)[id])
})
