import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { eventually } from '../../../test/support/sdk/eventually.ts'
import { Gadget } from '../../../test/support/sdk/sample-models.ts'
import { ApiError } from '../api/errors.ts'
import { singleValueIndex } from '../api/index-spec.ts'
import { defineModel } from '../api/model.ts'
import { setOwnerReference } from '../api/owners.ts'
import { createClient } from '../client/create-client.ts'
import { definePlugin } from '../plugin/plugin.ts'
import { until } from '../wait/until.ts'
import { waitFor } from '../wait/wait-for.ts'
import { consoleLogger } from './console-logger.ts'
import { startTestServer } from './test-server.ts'

test('is a real server: it validates, enforces unique indexes, sorts, and counts versions and generations', async () => {
  const Account = defineModel({
    group: 'demo.example.com',
    version: 'v1',
    kind: 'Account',
    singular: 'account',
    plural: 'accounts',
    schema: {
      spec: { type: 'object', required: ['email'], properties: { email: { type: 'string', minLength: 3 } } },
    },
    indexes: [
      singleValueIndex({ name: 'spec.email', unique: true, indexFunc: account => account.spec.email }),
    ],
  })
  await using server = await startTestServer({ models: [Account] })
  const { client } = server
  const b = await client.create(Account, { metadata: { name: 'b' }, spec: { email: 'b@x' } })
  await client.create(Account, { metadata: { name: 'a' }, spec: { email: 'c@x' } })
  await expect(
    client.create(Account, { metadata: { name: 'c' }, spec: { email: '' } }),
  ).rejects.toMatchObject({
    reason: 'Invalid',
    details: { causes: [{ field: 'spec.email' }] },
  })
  await expect(
    client.create(Account, { metadata: { name: 'c' }, spec: { email: 'b@x' } }),
  ).rejects.toMatchObject({
    reason: 'AlreadyExists',
    details: { causes: [{ reason: 'FieldValueDuplicate' }] },
  })
  const list = await client.list(Account, { sort: 'spec.email,asc' })
  expect(list.items.map(({ metadata }) => metadata.name)).toEqual(['b', 'a'])
  const changed = await client.patch(Account, b, { spec: { email: 'd@x' } })
  expect(changed.metadata.generation).toBe(2)
  expect(Number(changed.metadata.version)).toBeGreaterThan(Number(b.metadata.version))
})

test('every server has its own store, which is removed with it', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'test-server-'))
  vi.stubEnv('TMPDIR', folder)
  try {
    const one = await startTestServer({ models: [Gadget] })
    const other = await startTestServer({ models: [Gadget] })
    expect(await readdir(folder)).toHaveLength(2)
    await one.client.create(Gadget, { metadata: { name: 'a' }, spec: { size: 1 } })
    expect((await other.client.list(Gadget)).items).toEqual([])
    await Promise.all([one.close(), one.close(), other.close()])
    expect(await readdir(folder)).toEqual([])
  } finally {
    vi.unstubAllEnvs()
    await rm(folder, { recursive: true })
  }
})

test('in-process and remote clients reach the same server', async () => {
  await using server = await startTestServer({ models: [Gadget] })
  const transport = await server.httpTransport()
  const outside = createClient(transport)
  const watch = await outside.watch(Gadget)
  const created = await server.client.create(Gadget, { metadata: { name: 'a' }, spec: { size: 1 } })
  for await (const event of watch) {
    if (event.type !== 'ADDED') continue
    expect(event.object).toEqual(created)
    break
  }
  expect(await outside.get(Gadget, 'a')).toEqual(created)
  expect(await server.listen()).toBe(await server.listen())
  expect((await fetch(`${await server.listen()}/readyz`)).status).toBe(200)
})

test('a plugin and its routes are served at once; its controllers run when the test starts them', async () => {
  const plugin = definePlugin({
    name: 'gadgets',
    models: [Gadget],
    setup(context) {
      context.controller(Gadget, controller =>
        controller
          .reconcile(async (gadget, { client }) => {
            await client.patchStatus(Gadget, gadget, { seen: gadget.spec.size })
          })
          .finalize('demo.example.com/gadget', () => {}),
      )
      context.routes('console.api.demo.example.com/v1', routes =>
        routes.get('/sizes', async ({ client }) => {
          const { items } = await client.list(Gadget)
          return { body: items.map(({ spec }) => spec.size) }
        }),
      )
    },
  })
  await using server = await startTestServer({ plugins: [plugin] })
  await server.client.create(Gadget, { metadata: { name: 'a' }, spec: { size: 3 } })
  const route = await fetch(`${await server.listen()}/apis/console.api.demo.example.com/v1/sizes`)
  expect(await route.json()).toEqual([3])
  expect((await server.client.get(Gadget, 'a')).metadata.finalizers).toBeUndefined()
  const manager = await server.startPlugin(plugin)
  const gadgets = manager.informer(Gadget)
  await eventually(() => gadgets.get('a')?.status?.seen === 3)
  await server.client.delete(Gadget, 'a')
  await eventually(() => gadgets.hasSynced && gadgets.get('a') === undefined)
})

test('a plugin gets the settings of the test with their defaults, and invalid ones are refused', async () => {
  const seen: unknown[] = []
  const plugin = definePlugin({
    name: 'set',
    settings: {
      type: 'object',
      properties: { size: { type: 'integer', default: 3 }, word: { type: 'string' } },
    },
    setup({ settings }) {
      seen.push(settings)
    },
  })
  await using server = await startTestServer({ plugins: [plugin], settings: { set: { word: 'a' } } })
  await server.startPlugin(plugin)
  await server.listen()
  expect(seen).toEqual([
    { size: 3, word: 'a' },
    { size: 3, word: 'a' },
  ])
  expect(seen.every(Object.isFrozen)).toBe(true)
  const other = startTestServer({ plugins: [plugin], settings: { set: { word: 1 } } })
  await expect(other).rejects.toThrow('word must be a string')
})

test('a missing setting is named with where a test gives it, and settings of no plugin are refused', async () => {
  const settings = {
    type: 'object',
    required: ['pepper'],
    properties: { pepper: { type: 'string' } },
  } as const
  const plugins = [definePlugin({ name: 'mailboxes', settings })]
  await expect(startTestServer({ plugins })).rejects.toThrow(
    'its settings are invalid: pepper is required (give settings: { "mailboxes": { pepper } })',
  )
  await expect(startTestServer({ plugins, settings: { mailbox: { pepper: 'a' } } })).rejects.toThrow(
    new TypeError(
      'unknown key mailbox in settings of startTestServer, which has them by plugin, did you mean mailboxes?',
    ),
  )
  await expect(startTestServer({ settings: { mailboxes: { pepper: 'a' } } })).rejects.toThrow(
    new TypeError(
      'settings of startTestServer are for plugin mailboxes, and no plugin of that name is in plugins',
    ),
  )
})

test('dependents of a deleted owner are deleted', async () => {
  await using server = await startTestServer({ models: [Gadget] })
  const { client } = server
  const owner = await client.create(Gadget, { metadata: { name: 'owner' }, spec: { size: 1 } })
  await client.create(
    Gadget,
    setOwnerReference(owner, { metadata: { name: 'dependent' }, spec: { size: 1 } }),
  )
  await client.delete(Gadget, 'owner')
  await waitFor(client, Gadget, 'dependent', until.deleted(), { timeoutMs: 120_000 })
})

test('managers can elect a leader', async () => {
  await using server = await startTestServer({ models: [Gadget] })
  const manager = server.manager({ leaderElection: { lease: 'tests' } })
  manager.start()
  await eventually(() => manager.leadership?.isLeader === true)
})

test('errors are those of the SDK copy of the test, also of a refused watch', async () => {
  await using server = await startTestServer({ models: [Gadget] })
  await expect(server.client.get(Gadget, 'none')).rejects.toMatchObject({
    name: 'ApiError',
    reason: 'NotFound',
  })
  const refused = server.client.watch(Gadget, { fieldSelector: 'spec.none=1' })
  await expect(refused).rejects.toBeInstanceOf(ApiError)
  await expect(refused).rejects.toMatchObject({ reason: 'BadRequest' })
})

test('a model that cannot be served is rejected, and nothing is left behind', async () => {
  const { apiVersion: _, ...declaration } = Gadget
  const reserved = definePlugin({
    name: 'bad',
    models: [defineModel({ ...declaration, group: 'apps.setpoint.dev' })],
  })
  await expect(startTestServer({ plugins: [reserved] })).rejects.toThrow('reserved')
  const sameNames = defineModel({ ...declaration, kind: 'Other', singular: 'other' })
  await expect(startTestServer({ models: [Gadget, sameNames] })).rejects.toThrow('already served')
})

test('close ends open watches and managers, and refuses further requests', async () => {
  const server = await startTestServer({ models: [Gadget] })
  const manager = server.manager()
  const informer = manager.informer(Gadget)
  manager.start()
  await informer.synced
  const watch = await server.client.watch(Gadget)
  await server.close()
  expect((await watch.end).code).toBe(1001)
  await expect(server.client.list(Gadget)).rejects.toMatchObject({ reason: 'ServiceUnavailable' })
  await expect(server.listen()).rejects.toThrow('closed')
})

test('with the console as its log, shows why a reconciler is retried', async () => {
  let printed = ''
  vi.spyOn(process.stderr, 'write').mockImplementation(text => {
    printed += text
    return true
  })
  const failing = definePlugin({
    name: 'failing',
    models: [Gadget],
    setup(plugin) {
      plugin.controller(Gadget, c =>
        c.reconcile(async () => {
          throw new Error('no such machine')
        }),
      )
    },
  })
  try {
    await using server = await startTestServer({ plugins: [failing], log: consoleLogger() })
    await server.startPlugin(failing)
    await server.client.create(Gadget, { metadata: { name: 'a' }, spec: { size: 1 } })
    await expect.poll(() => printed).toMatch(/WARN reconcile failed, retrying .*Error: no such machine/s)
    expect(printed).toContain("object: 'a'")
  } finally {
    vi.restoreAllMocks()
  }
})
