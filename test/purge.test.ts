import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Api, objectOf } from './support/api.ts'
import { type EtcdProcess, startEtcd } from './support/etcd.ts'
import { gadgetsOf, itemsOf, pluginsPath } from './support/kinds.ts'
import {
  type Exit,
  type RunningServer,
  runProgram,
  spawnProgram,
  startSharedServer,
} from './support/server.ts'
import { peekAt, withStoreAt } from './support/store-peek.ts'
import { bothStores, copyFixture } from './support/worlds.ts'

/** Objects for a purge to be killed in the middle: dozens of its pages. */
const copies = 4_000

/** `setpoint purge` against the store of the built program, before, while and after servers run on it. */

describe.each(bothStores)('setpoint purge on the %s store', store => {
  let dataDir: string
  let etcd: EtcdProcess | undefined
  let demo: string
  let items: string
  let server: RunningServer
  const folders: string[] = []

  beforeAll(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'setpoint-purge-'))
    demo = await copyFixture('demo-plugin')
    items = await copyFixture('items-plugin')
    folders.push(dataDir, demo, items)
    if (store === 'etcd') etcd = await startEtcd({ unsafeNoFsync: true })
    server = await start([demo, items])
  })
  afterAll(async () => {
    await server?.stop()
    await etcd?.stop()
    await Promise.all(folders.map(each => rm(each, { recursive: true, force: true })))
  })

  async function start(plugins: readonly string[]): Promise<RunningServer> {
    return startSharedServer({ store, dataDir, plugins, ...(etcd && { etcd, etcdPrefix: '/purged' }) })
  }

  function flags(): readonly string[] {
    return etcd ? ['--etcd-endpoints', etcd.endpoint, '--etcd-prefix', '/purged'] : ['--data-dir', dataDir]
  }

  function purge(args: readonly string[], input?: string): Promise<Exit> {
    return runProgram(['purge', ...args, ...flags()], input === undefined ? {} : { input })
  }

  it('removes all that an uninstalled plugin left, after a question, and nothing of others', async () => {
    const gadgets = gadgetsOf(new Api(server.url))
    await gadgets.create('a', { email: 'a@example.com' })
    await gadgets.create('b', { email: 'b@example.com', tags: ['stuck'] })
    await itemsOf(gadgets.api).create('kept', { rank: '1' })
    // The plugin ships two, and its controller adds a finalizer to all.
    await expect
      .poll(async () => (await gadgets.list()).items.filter(({ metadata }) => metadata.finalizers).length)
      .toBe(4)

    if (store === 'etcd') {
      // A server that has the plugin writes the object again, which tells a purge so.
      objectOf(await gadgets.api.delete(`${pluginsPath}/demo`))
      await expect.poll(async () => (await gadgets.api.get(`${pluginsPath}/demo`)).status).toBe(200)
    }
    const refused = await purge(['demo.example.com', '--yes'])
    expect(refused).toMatchObject({ code: 1 })
    expect(refused.stderr).toMatch(
      store === 'etcd'
        ? /^setpoint: a server may still serve demo\.example\.com: the Plugin object demo \(/
        : /^setpoint: the data folder \S+ is in use by process \d+/,
    )
    expect((await gadgets.list()).names).toContain('a')

    await server.end()
    if (store === 'etcd') {
      // Another server goes on without the plugin.
      server = await start([items])
      objectOf(await new Api(server.url).delete(`${pluginsPath}/demo`))
    }
    const dryRun = await purge(['demo.example.com', '--dry-run'])
    expect(dryRun).toMatchObject({ code: 0, stderr: '' })
    expect(dryRun.stdout.split('\n')).toEqual([
      expect.stringMatching(/ has of demo\.example\.com:$/),
      '  gadgets: 4 objects, 4 of them with finalizers; 4 unique values; the record of its indexes and versions',
      ...(store === 'etcd' ? [] : ['  the Plugin object demo']),
      expect.stringMatching(/^4 objects have finalizers: no controller cleans up/),
      expect.stringMatching(/^Objects of other groups stay/),
      'Nothing was removed: this is a dry run.',
      '',
    ])
    for (const answer of ['', 'yes\n', 'items.example.com\n']) {
      const unconfirmed = await purge(['demo.example.com'], answer)
      expect(unconfirmed).toMatchObject({
        code: 1,
        stdout: expect.stringMatching(/\nNothing was removed\.\n$/),
      })
    }
    const purged = await purge(['demo.example.com'], 'demo.example.com\n')
    expect(purged).toMatchObject({ code: 0, stderr: '' })
    expect(purged.stdout).toMatch(/\nRemoved demo\.example\.com: 4 objects of 1 kind\.\n$/)
    expect((await purge(['demo.example.com', '--yes'])).stdout).toMatch(/ has nothing of demo\.example\.com/)

    await server.end()
    server = await start([demo, items])
    const again = gadgetsOf(new Api(server.url))
    await expect
      .poll(async () => [...(await again.list()).names].sort())
      .toEqual(['shipped-one', 'shipped-two'])
    // Its reservation is gone too.
    await again.create('c', { email: 'a@example.com' })
    expect((await itemsOf(again.api).list()).names).toEqual(['kept'])
  })

  it('that is killed is run again for the rest, and the store is as if it had not been', async () => {
    await itemsOf(new Api(server.url)).create('other', {})
    await server.end()
    const place = etcd ? { endpoint: etcd.endpoint, prefix: '/purged' } : { dataDir }
    const [objects, reservations] = [
      'objects/demo.example.com/gadgets/',
      'unique/demo.example.com/gadgets/n/',
    ]
    const last = `${objects}z-${String(copies - 1).padStart(5, '0')}`
    const first = await withStoreAt(place, async storage => {
      const [pair] = (await storage.list(objects, { limit: 1 })).pairs
      if (pair === undefined) throw new Error('there is no gadget')
      for (let n = 0; n < copies; n += 50) {
        const names = Array.from({ length: 50 }, (_, at) => `z-${String(n + at).padStart(5, '0')}`)
        const onSuccess = names.flatMap(name => [
          { type: 'put', key: objects + name, value: pair.value } as const,
          { type: 'put', key: reservations + name, value: Buffer.from('{}') } as const,
        ])
        await storage.transact({ compares: [], onSuccess })
      }
      // On etcd it says that a server may have the plugin.
      const key = 'objects/plugins.setpoint.dev/plugins/demo'
      await storage.transact({ compares: [], onSuccess: [{ type: 'delete', key }] })
      return pair.key
    })
    const peek = await peekAt(place)
    const killed = spawnProgram(['purge', 'demo.example.com', '--yes', ...flags()])
    await expect.poll(() => peek.value(first), { interval: 1 }).toBeUndefined()
    expect(await killed.kill()).toMatchObject({ signal: 'SIGKILL' })
    expect(await peek.value(last)).toBeDefined()
    await peek.close()
    const again = await purge(['demo.example.com', '--yes'])
    expect(again).toMatchObject({ code: 0, stdout: expect.stringContaining('Removed demo.example.com: ') })
    // As the server's own file names the store.
    const config = join(dataDir, 'setpoint.yaml')
    const settings = etcd
      ? { 'etcd-endpoints': [etcd.endpoint], 'etcd-prefix': '/purged' }
      : { 'data-dir': dataDir }
    await writeFile(config, JSON.stringify({ listen: '127.0.0.1:0', plugin: [demo], ...settings }))
    const checked = await runProgram(['check', '--config', config])
    expect(checked).toMatchObject({ code: 0, stdout: expect.stringContaining('No problems.') })
    expect((await purge(['demo.example.com', '--yes'])).stdout).toMatch(/ has nothing of demo\.example\.com/)
    server = await start([items])
    expect((await itemsOf(new Api(server.url)).list()).names).toContain('other')
  })

  it('refuses built-in groups, and what is no group', async () => {
    for (const group of ['setpoint.dev', 'plugins.setpoint.dev', 'coordination.k8s.io', 'Bad_Group', ''])
      expect(await purge([group, '--yes'])).toMatchObject({ code: 2, stdout: '' })
  })
})

it('does not create a store where there is none', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-purge-'))
  const dataDir = join(folder, 'typo')
  const exit = await runProgram(['purge', 'demo.example.com', '--data-dir', dataDir])
  expect(exit).toMatchObject({
    code: 1,
    stderr: expect.stringContaining(`the folder ${dataDir} has no store`),
  })
  await expect(rm(dataDir, { recursive: true })).rejects.toThrow('ENOENT')
  await rm(folder, { recursive: true })
})
