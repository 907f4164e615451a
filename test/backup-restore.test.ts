import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { openEmbeddedStorage } from '../apiserver/src/storage/embedded/index.ts'
import { openEtcdStorage } from '../apiserver/src/storage/etcd/index.ts'
import type { Storage } from '../apiserver/src/storage/index.ts'
import { Api } from './support/api.ts'
import { blocksOf } from './support/doc-blocks.ts'
import { type EtcdProcess, startEtcd } from './support/etcd.ts'
import { fieldsOf } from './support/json.ts'
import { itemsOf } from './support/kinds.ts'
import { freePort } from './support/ports.ts'
import { type Exit, runProgram, spawnProgram, startSharedServer } from './support/server.ts'
import { Watch } from './support/watch.ts'
import { bothStores, copyFixture, type Store } from './support/worlds.ts'

/** `setpoint backup`, `restore` and `verify`, as an operator runs them. */

const gap = 1_000_000_000

let etcd: EtcdProcess
beforeAll(async () => {
  etcd = await startEtcd({ unsafeNoFsync: true })
  return () => etcd.stop()
})

async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-backup-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return folder
}

/** A place for a store, which is empty at first. */
interface Place {
  readonly flags: readonly string[]
  open(): Promise<Storage>
  serve(plugins?: readonly string[]): ReturnType<typeof startSharedServer>
}

let places = 0

async function placeOn(store: Store): Promise<Place> {
  if (store === 'embedded') {
    const dataDir = join(await temporaryFolder(), 'data')
    // The working directory of the server.
    const serve = async (plugins?: readonly string[]) => {
      await mkdir(dataDir, { recursive: true })
      return startSharedServer({ dataDir, plugins })
    }
    return {
      flags: ['--data-dir', dataDir],
      open: () => openEmbeddedStorage({ dataDir }),
      serve,
    }
  }
  const prefix = `/place-${++places}`
  return {
    flags: ['--etcd-endpoints', etcd.endpoint, '--etcd-prefix', prefix],
    open: () => openEtcdStorage({ endpoints: [etcd.endpoint], prefix }),
    serve: plugins => startSharedServer({ store: 'etcd', etcd, etcdPrefix: prefix, plugins }),
  }
}

async function succeeds(...args: string[]): Promise<Exit> {
  const exit = await runProgram(args)
  // Long work says how far it is.
  expect(exit.code, exit.stderr).toBe(0)
  return exit
}

async function fails(...args: string[]): Promise<string> {
  const exit = await runProgram(args)
  expect(exit.code).not.toBe(0)
  return exit.stderr
}

interface Content {
  readonly values: Readonly<Record<string, string>>
  /** The keys of objects, in the order of their versions. */
  readonly order: readonly string[]
  readonly versions: readonly number[]
  readonly current: number
}

/** Returns all that a store has. */
async function contentOf(place: Place): Promise<Content> {
  const storage = await place.open()
  try {
    const { pairs, more } = await storage.list('', { limit: 10_000 })
    expect(more).toBe(false)
    const objects = pairs
      .filter(({ key }) => key.startsWith('objects/'))
      .sort((left, right) => left.modRevision - right.modRevision)
    return {
      values: Object.fromEntries(pairs.map(({ key, value }) => [key, value.toString('base64')])),
      order: objects.map(({ key }) => key),
      versions: objects.map(({ modRevision }) => modRevision),
      current: (await storage.head()).current,
    }
  } finally {
    await storage.close()
  }
}

/** Fills a store without a server. */
async function fill(place: Place, objects: number): Promise<void> {
  const storage = await place.open()
  const value = Buffer.from(`{}\n{"text":"${'x'.repeat(500)}"}`)
  await Promise.all(
    Array.from({ length: objects }, (_, n) =>
      storage.transact({
        compares: [],
        onSuccess: [{ type: 'put', key: `objects/x.example.com/things/${n}`, value }],
      }),
    ),
  )
  await storage.close()
}

async function itemsPlugin(): Promise<string> {
  const folder = await copyFixture('items-plugin')
  onTestFinished(() => rm(folder, { recursive: true }))
  return folder
}

const other = (store: Store): Store => (store === 'embedded' ? 'etcd' : 'embedded')

describe.each(bothStores)('a backup of a running server on %s', store => {
  it('restored into the other store is the same control plane with new versions, which no watch of the old one resumes', async () => {
    const file = join(await temporaryFolder(), 'a.backup')
    const plugins = [await itemsPlugin()]
    const [from, to, back] = [await placeOn(store), await placeOn(other(store)), await placeOn(store)]
    const server = await from.serve(plugins)
    const before = itemsOf(new Api(server.url))
    await before.create('first', { code: 'taken', aliases: ['x', 'y'] })
    await before.create('second', { rank: '1' })
    await before.api.mergePatch(before.at('first'), { metadata: { finalizers: ['example.com/wait'] } })
    await before.api.delete(before.at('first'))
    const applied = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'a' }, data: { k: 'ü' } }
    await before.api.request('PATCH', '/api/v1/namespaces/default/configmaps/a?fieldManager=me', applied, {
      type: 'application/apply-patch+yaml',
    })
    const { version: old } = await before.list()
    const taken = await succeeds('backup', file, '--server', server.url)
    expect(taken.stdout).toMatch(/^backed up \d+ objects and \d+ other keys at version \d+ to /)
    expect((await stat(file)).mode & 0o777).toBe(0o600)
    await server.stop()

    const stored = await contentOf(from)
    const leftOut = /^compaction$|^objects\/coordination.k8s.io\/leases\/setpoint-system\//
    const kept = Object.entries(stored.values).filter(([key]) => !leftOut.test(key))
    await succeeds('restore', file, ...to.flags)
    const restored = await contentOf(to)
    expect(restored.values).toEqual(Object.fromEntries(kept))
    expect(restored.order).toEqual(stored.order.filter(key => !leftOut.test(key)))
    expect(Math.min(...restored.versions)).toBeGreaterThan(Number(old) + gap)
    expect(new Set(restored.versions).size).toBe(restored.versions.length)

    const again = join(await temporaryFolder(), 'b.backup')
    await succeeds('backup', again, ...to.flags)
    await succeeds('restore', again, ...back.flags)
    expect((await contentOf(back)).values).toEqual(restored.values)

    const revived = await to.serve(plugins)
    onTestFinished(async () => void (await revived.stop()))
    const after = itemsOf(new Api(revived.url))
    const { items, version } = await after.list()
    const [first, second] = [items[1], items[0]]
    expect([first, second].map(item => [item?.metadata.name, item?.metadata.finalizers])).toEqual([
      ['first', ['example.com/wait']],
      ['second', []],
    ])
    expect(first?.metadata.deletionTimestamp).toBeDefined()
    expect(
      await after.api.post(after.path, {
        ...second?.raw,
        metadata: { name: 'c' },
        spec: { code: 'taken' },
      }),
    ).toMatchObject({ status: 409 })
    const created = await after.create('third', { rank: '2' })
    expect(Number(created.metadata.version)).toBeGreaterThan(Number(version))
    const resumed = await Watch.open(revived.url, `${after.path}?version=${old}`)
    expect(await resumed.closed).toMatchObject({ code: 4410 })
  })
})

describe('a restore that cannot be', () => {
  it.each(bothStores)(
    'changes nothing on %s: a damaged file, a store that is not empty, a second restore',
    async store => {
      const folder = await temporaryFolder()
      const [from, to] = [await placeOn('embedded'), await placeOn(store)]
      await fill(from, 50)
      const file = join(folder, 'a.backup')
      await succeeds('backup', file, ...from.flags)
      await succeeds('verify', file)
      const bytes = await readFile(file)
      const cut = join(folder, 'cut.backup')
      await writeFile(cut, bytes.subarray(0, -20))
      expect(await fails('verify', cut)).toBe(
        `setpoint: cannot use ${cut}: it is cut: its last line, with the counts and the checksum, is missing\n`,
      )
      expect(await fails('restore', cut, '--force', ...to.flags)).toContain('it is cut')
      const planned = await succeeds('restore', file, '--dry-run', ...to.flags)
      expect(planned.stdout).toContain('would restore 50 objects')
      expect((await contentOf(to)).values).toEqual({})

      await fill(to, 3)
      const present = await contentOf(to)
      expect(await fails('restore', file, ...to.flags)).toContain(
        'is not empty; give --force to replace all of its content',
      )
      expect(await fails('restore', file, '--dry-run', ...to.flags)).toContain('has 3 keys; give --force')
      expect(await contentOf(to)).toEqual(present)
      await succeeds('restore', file, '--force', ...to.flags)
      expect((await contentOf(to)).values).toEqual((await contentOf(from)).values)
    },
  )

  it('refuses a folder that a server uses, and a backup of it names the way through the server', async () => {
    const place = await placeOn('embedded')
    const server = await place.serve()
    onTestFinished(async () => void (await server.stop()))
    const file = join(await temporaryFolder(), 'a.backup')
    expect(await fails('backup', file, ...place.flags)).toMatch(
      /is in use by process \d+ .* or back up through its server with --server URL/,
    )
    await succeeds('backup', file, '--server', server.url)
    expect(await fails('restore', file, '--force', ...place.flags)).toMatch(/is in use by process \d+/)
    expect(await fails('backup', file, '--server', server.url)).toContain(
      'exists: give another name, or --force',
    )
  })

  it('names a folder without a store, and does not create one', async () => {
    const folder = join(await temporaryFolder(), 'missing')
    expect(await fails('backup', join(folder, 'a'), '--data-dir', folder)).toContain('ENOENT')
    expect(await fails('backup', `${folder}.backup`, '--data-dir', folder)).toContain(
      `the folder ${folder} has no store`,
    )
    expect(existsSync(folder)).toBe(false)
  })
})

describe.each(bothStores)('a restore on %s that is killed', store => {
  it('leaves a store that servers refuse by name, and that a restore with --force completes', async () => {
    const [from, to] = [await placeOn('embedded'), await placeOn(store)]
    await fill(from, 5_000)
    const file = join(await temporaryFolder(), 'a.backup')
    await succeeds('backup', file, ...from.flags)
    const restoring = spawnProgram(['restore', file, ...to.flags])
    if (store === 'embedded')
      await expect
        .poll(() => existsSync(join(to.flags[1] ?? '', 'restore', 'store.mdb')), { interval: 1 })
        .toBe(true)
    else await expect.poll(() => refusalOf(to), { interval: 1 }).toContain('is not complete')
    expect(await restoring.kill()).toMatchObject({ signal: 'SIGKILL' })

    if (store === 'embedded')
      await expect(to.serve()).rejects.toThrow('is not complete; run it again with --force')
    else {
      const server = await to.serve()
      const api = new Api(server.url)
      await expect
        .poll(async () => (await api.get('/api/v1/namespaces')).text)
        .toContain('run it again with --force')
      expect(await api.get('/readyz')).toMatchObject({ status: 503 })
      await server.stop()
    }
    expect(await fails('restore', file, ...to.flags)).toContain('run it again with --force')
    expect(await fails('backup', `${file}.2`, ...to.flags)).toContain('is not complete')
    await succeeds('restore', file, '--force', ...to.flags)
    expect((await contentOf(to)).values).toEqual((await contentOf(from)).values)
  })
})

async function refusalOf(place: Place): Promise<string> {
  const storage = await place.open()
  return storage
    .head()
    .then(
      () => '',
      (error: unknown) => String(error),
    )
    .finally(() => storage.close())
}

it('servers that run while their etcd is restored refuse everything until they are restarted', async () => {
  const place = await placeOn('etcd')
  const plugins = [await itemsPlugin()]
  const server = await place.serve(plugins)
  onTestFinished(async () => void (await server.stop()))
  const items = itemsOf(new Api(server.url))
  await items.create('kept', { rank: '1' })
  const file = join(await temporaryFolder(), 'a.backup')
  await succeeds('backup', file, ...place.flags)
  const lost = await items.create('lost', { rank: '1' })
  const watch = await Watch.open(server.url, `${items.path}?version=${lost.metadata.version}`)
  await succeeds('restore', file, '--force', ...place.flags)
  await expect.poll(() => items.api.get(items.path)).toMatchObject({ status: 503 })
  expect(await items.api.post(items.path, { ...lost.raw, metadata: { name: 'late' } })).toMatchObject({
    status: 503,
  })
  await server.restart()
  await watch.closed
  await expect.poll(async () => (await items.api.get('/readyz')).status).toBe(200)
  const { items: present } = await items.list()
  expect(present.map(({ metadata }) => metadata.name)).toEqual(['kept'])
  expect(Number(present[0]?.metadata.version)).toBeGreaterThan(Number(lost.metadata.version) + gap)
})

it('a backup that the server does not complete leaves no file', async () => {
  const folder = await temporaryFolder()
  const place = await placeOn('embedded')
  await fill(place, 500)
  const whole = join(folder, 'whole.backup')
  await succeeds('backup', whole, ...place.flags)
  const bytes = await readFile(whole)
  const dying = createServer((_, response) => {
    response.write(bytes.subarray(0, bytes.length / 2), () => response.destroy())
  }).listen(await freePort(), '127.0.0.1')
  onTestFinished(() => void dying.close())
  await once(dying, 'listening')
  const address = dying.address()
  const port = typeof address === 'object' ? address?.port : undefined
  const file = join(folder, 'a.backup')
  expect(await fails('backup', file, '--server', `http://127.0.0.1:${port}`)).toContain(
    'the server ended the backup before it was complete',
  )
  expect(await readdir(folder)).toEqual(expect.not.arrayContaining([expect.stringContaining('a.backup')]))
})

it('an increment is restored after its base, and only after it', async () => {
  const folder = await temporaryFolder()
  const [from, to] = [await placeOn('etcd'), await placeOn('embedded')]
  const server = await from.serve([await itemsPlugin()])
  const items = itemsOf(new Api(server.url))
  await items.create('changed', { code: 'a' })
  await items.create('deleted', { code: 'b' })
  const [base, more] = [join(folder, 'base'), join(folder, 'more')]
  await succeeds('backup', base, '--server', server.url)
  await items.api.mergePatch(items.at('changed'), { spec: { code: 'c' } })
  await items.api.delete(items.at('deleted'))
  await items.create('created', { code: 'a' })
  const taken = await succeeds('backup', more, '--since', base, '--server', server.url)
  expect(taken.stdout).toMatch(/^backed up \d+ changes, \d+ of them deletions/)
  const storage = await from.open()
  await storage.compact((await storage.head()).current)
  await storage.close()
  const late = await fails('backup', `${more}.2`, '--since', base, '--server', server.url)
  expect(late).toMatch(/the history of the store no longer reaches back to version \d+ of the given backup/)
  await server.stop()
  expect(await fails('restore', more, ...to.flags)).toContain('it is an increment of the backup at version')
  expect(await fails('verify', base, base)).toContain('it is a full backup')
  await succeeds('restore', base, more, ...to.flags)
  const leftOut = /^compaction$|^objects\/coordination.k8s.io\/leases\/setpoint-system\//
  const kept = Object.entries((await contentOf(from)).values).filter(([key]) => !leftOut.test(key))
  expect((await contentOf(to)).values).toEqual(Object.fromEntries(kept))
})

it('only administrators take a backup of a server', async () => {
  const folder = await temporaryFolder()
  const tokens = join(folder, 'tokens.yaml')
  const tokenOf = async (group: string) => {
    const { stdout } = await runProgram(['token', '--user', group, '--group', group, '--token-file', tokens])
    await writeFile(join(folder, group), stdout)
    return ['--server-token-file', join(folder, group)]
  }
  const [admin, viewer] = [await tokenOf('setpoint:admins'), await tokenOf('setpoint:viewers')]
  const server = await startSharedServer({ args: ['--token-file', tokens] })
  onTestFinished(async () => void (await server.stop()))
  const file = join(folder, 'a.backup')
  const asked = ['backup', file, '--server', server.url]
  await expect.poll(() => fails(...asked, ...viewer)).toContain('cannot get path "/operations/backup"')
  expect(await fails(...asked)).toContain('a token is required')
  await succeeds(...asked, ...admin)
})

it('people read a backup with gunzip', async () => {
  const place = await placeOn('embedded')
  await fill(place, 2)
  const file = join(await temporaryFolder(), 'a.backup')
  await succeeds('backup', file, ...place.flags)
  const { stdout } = await promisify(execFile)('bash', ['-c', `gunzip -c < ${file}`])
  const [header, first, , footer] = stdout
    .trim()
    .split('\n')
    .map(line => JSON.parse(line))
  expect(header).toMatchObject({ setpoint: 'backup', format: 1, kind: 'full', revision: 2 })
  expect(first).toMatchObject({ key: 'objects/x.example.com/things/0', object: { text: 'x'.repeat(500) } })
  expect(footer).toMatchObject({ end: true, entries: 2, objects: 2 })
  const piped = await promisify(execFile)('bash', [
    '-c',
    `node_modules/.bin/setpoint backup - ${place.flags.join(' ')} | gunzip | wc -l`,
  ])
  expect(piped.stdout.trim()).toBe('4')
  expect(piped.stderr).toContain('to standard output')
})

it("the chart's script takes a backup and keeps the newest ones", async () => {
  const folder = await temporaryFolder()
  const place = await placeOn('embedded')
  const server = await place.serve()
  onTestFinished(async () => void (await server.stop()))
  for (const old of ['2020-01-01T000000Z.backup', '2020-01-02T000000Z.backup', 'x.partial'])
    await writeFile(join(folder, old), '')
  const script = (await readFile('charts/setpoint/files/backup.sh', 'utf8')).replace(
    '/app/',
    `${process.cwd()}/`,
  )
  await promisify(execFile)('sh', ['-euc', script], {
    env: { ...process.env, SETPOINT_SERVER: server.url, BACKUP_FOLDER: folder, BACKUP_KEEP: '2' },
  })
  const [old, taken, ...others] = (await readdir(folder)).sort()
  expect([old, others]).toEqual(['2020-01-02T000000Z.backup', []])
  await succeeds('verify', join(folder, taken ?? ''))
})

it('the commands of docs/operations/backup.md do what it says', async () => {
  const folder = await temporaryFolder()
  const place = await placeOn('embedded')
  const server = await place.serve()
  const run = await blocksIn(folder, { 'http://127.0.0.1:8090': server.url })
  await run('backup-commands')
  await run('backup-increment')
  await run('backup-encrypted')
  expect(await fails('verify', join(folder, 'secret.backup'))).toContain('it is encrypted: give the key')
  await server.stop()
  await run('backup-restore')
  expect(existsSync(join(folder, 'data', 'store.mdb'))).toBe(true)
})

it('a control plane moves from its folder to etcd as docs/operations/backup.md says, and keeps uids and tokens', async () => {
  const folder = await temporaryFolder()
  const run = await blocksIn(folder, {
    '/srv/setpoint': folder,
    'systemctl ': ': ',
    'runuser --user setpoint -- ': '',
  })
  const [from, to] = [await placeOn('embedded'), await placeOn('etcd')]
  const settings = ({ flags }: Place) =>
    writeFile(
      join(folder, 'setpoint.yaml'),
      flags.map((flag, n) => (n % 2 ? `${flag}\n` : `${flag.slice(2)}: `)).join(''),
    )
  const before = await from.serve()
  const api = new Api(before.url)
  const accounts = '/api/v1/namespaces/default/serviceaccounts'
  const account = await api.post(accounts, { metadata: { name: 'robot' } })
  const issued = await api.post(`${accounts}/robot/token`, { spec: {} })
  const token = fieldsOf(fieldsOf(issued.body).status).token
  await before.stop()
  await settings(from)
  await run('move-out')
  await settings(to)
  await run('move-in')
  const moved = await to.serve()
  onTestFinished(async () => void (await moved.stop()))
  const after = new Api(moved.url)
  const { uid } = fieldsOf(fieldsOf(account.body).metadata)
  expect((await after.get(`${accounts}/robot`)).body).toMatchObject({ metadata: { uid } })
  const review = await after.post('/apis/authentication.k8s.io/v1/tokenreviews', { spec: { token } })
  expect(review.body).toMatchObject({
    status: { authenticated: true, user: { username: 'system:serviceaccount:default:robot' } },
  })
})

/**
 * Returns a function that runs a block of docs/operations/backup.md. @param here texts of the page, and what they are
 * here
 */
async function blocksIn(folder: string, here: Readonly<Record<string, string>>) {
  const page = 'docs/operations/backup.md'
  const blocks = blocksOf(page, await readFile(page, 'utf8'))
  const path = `${process.cwd()}/node_modules/.bin:${process.env.PATH}`
  return async (mark: string) => {
    const block = blocks.find(({ marks }) => marks.includes(mark))
    const text = Object.entries(here).reduce(
      (all, [there, own]) => all.replaceAll(there, own),
      `${block?.text}`,
    )
    await promisify(execFile)('bash', ['-euc', text], { cwd: folder, env: { ...process.env, PATH: path } })
  }
}
