import { afterAll, beforeAll, describe, expect, expectTypeOf, test } from 'vitest'
import { type Client, createClient } from '../client/index.ts'
import { Namespace } from '../kinds/index.ts'
import { definePlugin, type PluginContext } from '../plugin/plugin.ts'
import { startTestServer, type TestServer } from '../testing/test-server.ts'
import { defineAction } from './action.ts'
import type { ApiError } from './errors.ts'
import { defineModel } from './model.ts'

/** Actions of a kind. The types are checked by the compiler (`tsc -p test`). */

const spec = { type: 'object', properties: { size: { type: 'integer' } } } as const
const Database = defineModel({
  group: 'demo.example.com',
  version: 'v1',
  kind: 'Database',
  singular: 'database',
  plural: 'databases',
  scope: 'Namespaced',
  schema: { spec },
  versions: [
    { name: 'v1beta1', schema: { spec }, toHub: ({ spec }) => ({ spec }), fromHub: ({ spec }) => ({ spec }) },
  ],
})
const Server = defineModel({
  group: 'demo.example.com',
  version: 'v1',
  kind: 'Server',
  singular: 'server',
  plural: 'servers',
  schema: { spec: { type: 'object', properties: { rack: { type: 'string' } } } },
})

const backup = defineAction(Database, 'backup', {
  input: {
    type: 'object',
    required: ['to'],
    properties: {
      to: {
        type: 'string',
        'x-kubernetes-validations': [{ rule: 'self.startsWith("s3:")', message: 'must be in s3' }],
      },
      copies: { type: 'integer', minimum: 1, default: 2 },
    },
  },
  output: { type: 'object', required: ['name'], properties: { name: { type: 'string' } } },
})
const restart = defineAction(Server, 'restart')

const setup = (plugin: PluginContext) => {
  plugin.action(backup, async ({ object, input, user, client }) => {
    if (input.to === 's3:broken') throw new Error('broken')
    const size = (await client.get(Database, `${object.metadata.namespace}/${object.metadata.name}`)).spec
      .size
    const name = [object.metadata.name, size, input.to, input.copies, user.name].join(' ')
    return input.to === 's3:odd' ? Object.assign({ name }, { name: 1 }) : { name }
  })
  plugin.action(restart, ({ object, client }) =>
    client.patch(Server, object, { metadata: { labels: { 'a.b/c': 'd' } } }),
  )
  plugin.action(Server, 'measure', {
    output: { type: 'integer' },
    run: ({ object: { metadata } }) => metadata.name.length,
  })
}
const plugin = definePlugin({ name: 'databases', models: [Database, Server], setup })

let server: TestServer
beforeAll(async () => {
  server = await startTestServer({ plugins: [plugin] })
  await server.client.create(Namespace, { metadata: { name: 'a' } })
  await server.client.create(Database, { metadata: { name: 'db', namespace: 'a' }, spec: { size: 3 } })
  await server.client.create(Server, { metadata: { name: 'host' }, spec: {} })
})
afterAll(() => server.close())

describe.each(['in the process', 'over HTTP'])('an action called %s', place => {
  let client: Client
  let close = () => {}
  beforeAll(async () => {
    const http = place === 'over HTTP' ? await server.httpTransport() : undefined
    close = () => http?.close()
    client = http === undefined ? server.client : createClient(http)
  })
  afterAll(() => close())

  const refusal = (call: Promise<unknown>): Promise<ApiError> =>
    call.then(
      () => Promise.reject(new Error('not refused')),
      error => error,
    )

  test('gets the object and its input with defaults, and returns its output', async () => {
    const { name } = await client.action(backup, 'a/db', { to: 's3:x' })
    expect(name).toMatch(/^db 3 s3:x 2 \S+$/)
    const database = await client.get(Database, 'a/db')
    expect((await client.action(backup, database, { to: 's3:y', copies: 1 })).name).toContain('s3:y 1')
    const inA = client.inNamespace('a')
    expect((await inA.action(backup, 'db', { to: 's3:z' })).name).toContain('s3:z')
  })

  test('may have neither input nor output', async () => {
    expect(await client.action(restart, 'host')).toBeUndefined()
    expect((await client.get(Server, 'host')).metadata.labels).toEqual({ 'a.b/c': 'd' })
    expect(
      await client.action(defineAction(Server, 'measure', { output: { type: 'integer' } }), 'host'),
    ).toBe(4)
  })

  test('is refused with an invalid input, which names each field', async () => {
    const wrong = defineAction(Database, 'backup', { input: { type: 'object' } })
    const error = await refusal(client.action(wrong, 'a/db', { copies: 0 }))
    expect(error).toMatchObject({ reason: 'Invalid', details: { kind: 'Database', name: 'db' } })
    expect(error.details?.causes?.map(({ field }) => field).sort()).toEqual(['copies', 'to'])
    const ruled = await refusal(client.action(backup, 'a/db', { to: 'x' }))
    expect(ruled.details?.causes).toMatchObject([{ field: 'to', message: 'must be in s3' }])
    const extra = defineAction(Server, 'restart', { input: { type: 'object' } })
    expect(await refusal(client.action(extra, 'host', { a: 1 }))).toMatchObject({ reason: 'Invalid' })
  })

  test('is refused for an object that does not exist or is being deleted', async () => {
    expect(await refusal(client.action(restart, 'nowhere'))).toMatchObject({ reason: 'NotFound' })
    await client.create(Server, { metadata: { name: 'going', finalizers: ['a.b/c'] }, spec: {} })
    await client.delete(Server, 'going')
    expect(await refusal(client.action(restart, 'going'))).toMatchObject({ reason: 'Conflict' })
    await client.patch(Server, 'going', { metadata: { finalizers: null } })
  })

  test('that throws, or returns something else than declared, is a fault of the plugin', async () => {
    const fault = { reason: 'InternalError', message: expect.stringContaining('plugin databases') }
    expect(await refusal(client.action(backup, 'a/db', { to: 's3:broken' }))).toMatchObject(fault)
    expect(await refusal(client.action(backup, 'a/db', { to: 's3:odd' }))).toMatchObject(fault)
  })
})

test('an action is declared for a model of the plugin, with known keys and a valid name', async () => {
  const refused = async (register: (plugin: PluginContext) => void, models = [Server]) => {
    const broken = definePlugin({ name: 'broken', models, setup: register })
    return startTestServer({ plugins: [broken] }).then(
      () => 'not refused',
      error => String(error),
    )
  }
  expect(() => defineAction(Server, 'Re Start')).toThrow(/the name/)
  expect(() => Reflect.apply(defineAction, undefined, [Server, 'a', { inpt: {} }])).toThrow(
    /did you mean input/,
  )
  expect(() => defineAction(Server, 'a', { input: { type: 'string' } })).toThrow(/type: 'object'/)
  expect(await refused(p => p.action(backup, () => ({ name: '' })))).toMatch(
    /Database is not among the models/,
  )
  expect(await refused(p => p.action(Server, 'status', { run: () => {} }))).toMatch(
    /action servers\/status .* shadow the generated paths of Server/,
  )
  expect(
    await refused(p => {
      p.action(restart, () => {})
      p.action(Server, 'restart', { run: () => {} })
    }),
  ).toMatch(/action servers\/restart .* clash with action servers\/restart of plugin "broken"/)
  expect(
    await refused(p => {
      p.action(restart, () => {})
      p.routes('demo.example.com/v1', r => r.get('/servers/:name/restart', () => undefined))
    }),
  ).toMatch(/route GET \/servers\/:name\/restart .* clash with action servers\/restart/)
  const unreadable = { type: 'object', properties: { a: { type: 'strin' } } }
  expect(
    await refused(p => Reflect.apply(p.action, p, [Server, 'a', { input: unreadable, run: () => {} }])),
  ).toMatch(/action servers\/a: /)
})

test('the types of an action follow from its schemas', () => {
  const calls = async (client: Client, plugin: PluginContext) => {
    expectTypeOf(await client.action(backup, 'a/db', { to: 'x' })).toEqualTypeOf<{ name: string }>()
    expectTypeOf(await client.action(restart, 'a')).toEqualTypeOf<undefined>()
    // @ts-expect-error: the input is required
    await client.action(backup, 'a/db')
    // @ts-expect-error: the input has no such field
    await client.action(backup, 'a/db', { to: 'x', too: 1 })
    // @ts-expect-error: the input has no fields
    await client.action(restart, 'a', { now: true })
    // @ts-expect-error: the object is of another kind
    await client.action(restart, await client.get(Database, 'a/db'))
    // @ts-expect-error: the output needs a name
    plugin.action(backup, () => ({}))
    plugin.action(backup, ({ object, input }) => {
      expectTypeOf(object.spec.size).toEqualTypeOf<number | undefined>()
      expectTypeOf(input).toEqualTypeOf<{ to: string; copies: number }>()
      return { name: 'a' }
    })
    plugin.action(Server, 'a', {
      input: { type: 'object', properties: { now: { type: 'boolean' } } },
      run: ({ input }) => expectTypeOf(input).toEqualTypeOf<{ now?: boolean }>(),
    })
  }
  expect(calls).toBeTypeOf('function')
})
