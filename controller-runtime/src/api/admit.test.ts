import { afterAll, beforeAll, describe, expect, expectTypeOf, test } from 'vitest'
import type { Client } from '../client/index.ts'
import { ConfigMap, Namespace } from '../kinds/index.ts'
import { definePlugin } from '../plugin/plugin.ts'
import { startTestServer, type TestServer } from '../testing/test-server.ts'
import type { AdmitLister, HookViolation } from './hooks.ts'
import { singleValueIndex } from './index-spec.ts'
import { defineModel, type ObjectOf } from './model.ts'

/** Validation that reads other objects. The types are checked by the compiler (`tsc -p test`). */

const Team = defineModel({
  group: 'demo.example.com',
  version: 'v1',
  kind: 'Team',
  singular: 'team',
  plural: 'teams',
  schema: { spec: { type: 'object', properties: { databases: { type: 'integer' } } } },
})

const Database = defineModel({
  group: 'demo.example.com',
  version: 'v1',
  kind: 'Database',
  singular: 'database',
  plural: 'databases',
  scope: 'Namespaced',
  schema: {
    spec: {
      type: 'object',
      required: ['team'],
      properties: { team: { type: 'string' }, size: { type: 'integer' } },
    },
    status: { type: 'object', properties: { phase: { type: 'string' } } },
  },
  subresources: { status: true },
  indexes: [singleValueIndex({ name: 'spec.team', indexFunc: ({ spec }) => spec.team })],
  admit({ metadata, spec, status }, { lister, subresource }): HookViolation[] {
    if (subresource === 'status')
      return status?.phase === 'Odd' ? [{ field: 'status.phase', message: 'is odd' }] : []
    const team = lister.get(Team, spec.team)
    if (team === undefined) return [{ field: 'spec.team', message: 'does not exist' }]
    const { databases = 0 } = team.spec
    const others = lister
      .list(Database, { index: { name: 'spec.team', value: spec.team } })
      .filter(each => each.metadata.uid !== metadata.uid)
    return others.length < databases ? [] : [{ field: 'spec.team', message: `has ${databases} databases` }]
  },
})

/** Lists what its annotation says, and reports how much it has found. */
const Probe = defineModel({
  group: 'demo.example.com',
  version: 'v1',
  kind: 'Probe',
  singular: 'probe',
  plural: 'probes',
  schema: { spec: { type: 'object', required: ['ask'], properties: { ask: { type: 'string' } } } },
  admit({ spec: { ask } }, { lister }) {
    const message = probes[ask]?.(lister)
    return message === undefined ? undefined : [{ field: 'spec', message }]
  },
})

const names = (objects: readonly { readonly metadata: { readonly name: string } }[]) =>
  objects
    .map(({ metadata }) => metadata.name)
    .sort()
    .join()

const probes: Readonly<Record<string, (lister: AdmitLister) => string>> = {
  namespace: lister => names(lister.list(Database, { namespace: 'b' })),
  both: lister =>
    names(lister.list(Database, { namespace: 'a', index: { name: 'spec.team', value: 'blue' } })),
  all: lister => names(lister.list(Database)),
  key: lister =>
    `${lister.get(Database, 'b/three')?.spec.team} ${lister.get(Database, 'a/three')?.spec.team}`,
  builtIn: lister => lister.get(ConfigMap, 'a/limits')?.data?.size ?? 'none',
  frozen: lister => String(lister.list(Team).every(Object.isFrozen)),
  many: lister => String(lister.list(ConfigMap, { namespace: 'a' }).length),
  index: lister => names(lister.list(Database, { index: { name: 'spec.size', value: '1' } })),
  unserved: lister => names(lister.list({ ...Team, group: 'other.example.com' })),
  bareName: lister => refusalOf(() => lister.get(Database, 'three')),
  misspelled: lister => refusalOf(() => Reflect.apply(lister.list, lister, [Database, { namespce: 'a' }])),
  throws: () => {
    throw new Error('a fault')
  },
}

function refusalOf(read: () => unknown): string {
  try {
    return `returned ${JSON.stringify(read())}`
  } catch (error) {
    return String(error)
  }
}

let server: TestServer
let client: Client
beforeAll(async () => {
  server = await startTestServer({
    plugins: [definePlugin({ name: 'demo', models: [Team, Database, Probe] })],
  })
  client = server.client
  for (const name of ['a', 'b']) await client.create(Namespace, { metadata: { name } })
  await client.create(Team, { metadata: { name: 'blue' }, spec: { databases: 2 } })
  await client.create(Team, { metadata: { name: 'red' }, spec: { databases: 1 } })
})
afterAll(() => server.close())

const create = (namespace: string, name: string, team: string, options = {}) =>
  client.create(Database, { metadata: { name, namespace }, spec: { team } }, options)

describe('a quota in admit', () => {
  test('counts every write that was acknowledged before, and no more are stored', async () => {
    await create('a', 'one', 'blue')
    await create('b', 'two', 'blue')
    const refused = {
      reason: 'Invalid',
      details: { causes: [{ field: 'spec.team', message: 'has 2 databases' }] },
    }
    await expect(create('a', 'three', 'blue')).rejects.toMatchObject(refused)
    await expect(create('a', 'three', 'blue', { dryRun: true })).rejects.toMatchObject(refused)
    await client.delete(Database, 'a/one')
    await create('b', 'three', 'blue')
    await expect(create('a', 'three', 'green')).rejects.toThrow(/spec.team: does not exist/)
  })

  test('holds for patches, replacements and applies too', async () => {
    await create('a', 'four', 'red')
    const moved = { metadata: { name: 'four', namespace: 'a' }, spec: { team: 'blue' } }
    await expect(client.patch(Database, 'a/four', { spec: { team: 'blue' } })).rejects.toThrow(
      /has 2 databases/,
    )
    await expect(client.update(Database, moved)).rejects.toThrow(/has 2 databases/)
    await expect(client.apply(Database, moved, { force: true })).rejects.toThrow(/has 2 databases/)
  })

  test('does not block an object that has its place, nor one that the quota has become too small for', async () => {
    await client.patch(Database, 'b/three', { spec: { size: 1 } })
    await client.patch(Team, 'blue', { spec: { databases: 1 } })
    await client.patch(Database, 'b/three', { spec: { size: 2 } })
    await expect(client.patch(Database, 'a/four', { spec: { team: 'blue' } })).rejects.toThrow(
      /has 1 databases/,
    )
  })

  test('sees writes of the status, and no removal of finalizers', async () => {
    await expect(client.patchStatus(Database, 'b/three', { phase: 'Odd' })).rejects.toThrow(/is odd/)
    await client.patchStatus(Database, 'b/three', { phase: 'Ready' })
    await client.patch(Database, 'a/four', { metadata: { finalizers: ['demo.example.com/a'] } })
    await client.delete(Team, 'red')
    await client.delete(Database, 'a/four')
    await client.patch(Database, 'a/four', { metadata: { finalizers: null } })
    expect(await client.getIfExists(Database, 'a/four')).toBeUndefined()
  })
})

describe('the lister of admit', () => {
  const ask = (what: string) =>
    client.create(Probe, { metadata: { name: what.toLowerCase() }, spec: { ask: what } }, { dryRun: true })

  test.each([
    ['namespace', 'three,two'],
    ['both', ''],
    ['all', 'three,two'],
    ['key', 'blue undefined'],
    ['builtIn', 'small'],
    ['frozen', 'true'],
  ])('finds objects: %s', async (what, found) => {
    const metadata = { name: 'limits', namespace: 'a' }
    await client.apply(ConfigMap, { metadata, data: { size: 'small' } })
    await expect(ask(what)).rejects.toMatchObject({
      details: { causes: [{ field: 'spec', message: found }] },
    })
  })

  test.each([
    [
      'bareName',
      'TypeError: databases.demo.example.com are in namespaces: give the key <namespace>/<name> instead of "three"',
    ],
    ['misspelled', 'TypeError: unknown key namespce in the options of list, did you mean namespace?'],
  ])('refuses what it would otherwise ignore: %s', async (what, message) => {
    await expect(ask(what)).rejects.toMatchObject({ details: { causes: [{ field: 'spec', message }] } })
  })

  test.each(['index', 'unserved', 'throws'])('that fails is a fault of the plugin: %s', async what => {
    await expect(ask(what)).rejects.toMatchObject({
      reason: 'InternalError',
      message: expect.stringContaining('the admit hook of plugin "demo" failed'),
    })
  })

  test('reads a bounded number of objects', async () => {
    const all = Array.from({ length: 1_001 }, (_, at) =>
      client.create(ConfigMap, { metadata: { name: `c${at}`, namespace: 'a' } }),
    )
    await Promise.all(all)
    await expect(ask('many')).rejects.toMatchObject({ reason: 'InternalError' })
  })
})

test('the objects of a lister have the types of their models', () => {
  const read = (lister: AdmitLister) => {
    expectTypeOf(lister.get(Team, 'a')?.spec.databases).toEqualTypeOf<number | undefined>()
    expectTypeOf<ObjectOf<typeof Database>>().toExtend<NonNullable<ReturnType<typeof lister.get>>>()
    // @ts-expect-error: the lister is read-only
    for (const team of lister.list(Team)) team.spec.databases = 1
  }
  expect(read).toBeTypeOf('function')
})
