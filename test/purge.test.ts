import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Api, objectOf } from './support/api.ts'
import { type EtcdProcess, startEtcd } from './support/etcd.ts'
import { gadgetsOf, itemsOf, pluginsPath } from './support/kinds.ts'
import { type Exit, type RunningServer, runProgram, startSharedServer } from './support/server.ts'
import { bothStores, copyFixture } from './support/worlds.ts'

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

  function purge(args: readonly string[], input?: string): Promise<Exit> {
    const place = etcd
      ? ['--etcd-endpoints', etcd.endpoint, '--etcd-prefix', '/purged']
      : ['--data-dir', dataDir]
    return runProgram(['purge', ...args, ...place], input === undefined ? {} : { input })
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
