import { expect, test } from 'vitest'
import { Gadget } from '../../../../test/support/sdk/sample-models.ts'
import { defineModel } from '../../api/model.ts'
import { setControllerReference } from '../../api/owners.ts'
import { ConfigMap, Lease, Secret } from '../../kinds/index.ts'
import { definePlugin } from '../../plugin/plugin.ts'
import { startTestServer } from '../test-server.ts'
import { actionOf } from './call-action.ts'
import { reconcilerConformance } from './index.ts'

/** Reconcilers that use kinds of Kubernetes, which every server has. */

const Database = defineModel({
  group: 'demo.example.com',
  version: 'v1',
  kind: 'Database',
  singular: 'database',
  plural: 'databases',
  scope: 'Namespaced',
  schema: {
    spec: { type: 'object' },
    status: { type: 'object', properties: { secret: { type: 'string' } } },
  },
  subresources: { status: true },
})

const subject = {
  outside: () => undefined,
  controller: () => {},
  isConverged: () => true,
  isCleanedUp: () => true,
}

test('are refused by name where they are declared', async () => {
  const one = 'Secret is served by every server; leave it out of models'
  const several = 'ConfigMap, Lease and Secret are served by every server; leave them out of models'
  const models = [ConfigMap, Gadget, Lease, Secret]
  expect(() => definePlugin({ name: 'demo', models: [Secret] })).toThrow(new TypeError(`plugin demo: ${one}`))
  expect(() => definePlugin({ name: 'demo', models })).toThrow(new TypeError(`plugin demo: ${several}`))
  const objects = () => []
  expect(() => reconcilerConformance({ ...subject, model: Gadget, models: [Secret], objects })).toThrow(
    new TypeError(`reconcilerConformance: ${one}`),
  )
  await expect(startTestServer({ models })).rejects.toThrow(new TypeError(`startTestServer: ${several}`))
})

test('may be the reconciled kind', async () => {
  const { cases } = reconcilerConformance({
    ...subject,
    model: ConfigMap,
    objects: () => [{ metadata: { namespace: 'default', name: 'a' }, data: { size: '1' } }],
    controller: controller =>
      controller.reconcile(async (object, { client }) => {
        await client.patch(ConfigMap, object, { metadata: { annotations: { 'demo.example.com/seen': '1' } } })
      }),
    isConverged: ({ object }) => object.metadata.annotations?.['demo.example.com/seen'] === '1',
  })
  await cases[0]?.run()
})

test('a random password in hex in a Secret is the same in every lifecycle', async () => {
  const { cases } = reconcilerConformance({
    ...subject,
    model: Database,
    objects: () => [{ metadata: { namespace: 'default', name: 'orders' }, spec: {} }],
    controller: controller =>
      controller.owns(Secret).reconcile(async (database, { client, random }) => {
        const { namespace, name, deletionTimestamp } = database.metadata
        if (deletionTimestamp !== undefined) return
        const { object } = await client.createOrUpdate(Secret, `${namespace}/${name}-password`, draft => {
          if (draft.data?.password === undefined)
            draft.stringData = { password: random('password').toString('hex') }
          return setControllerReference(database, draft)
        })
        await client.patchStatus(Database, database, { secret: object.metadata.name })
      }),
    isConverged: ({ object }) => object.status?.secret !== undefined,
    world: async ({ client }) => (await client.list(Secret)).items.map(({ data }) => data),
  })
  await cases.find(({ name }) => name.startsWith('it reaches the same state after a crash'))?.run()
})

test.each([
  ['POST', '/api/v1/namespaces/default/secrets', 'creating a secret'],
  ['POST', '/api/v1/namespaces/default/events', 'creating an event'],
  ['GET', '/api/v1/namespaces/default/secrets/a', 'reading secret a'],
  ['GET', '/api/v1/secrets', 'listing secrets'],
  ['DELETE', '/api/v1/namespaces/team-a', 'deleting namespace team-a'],
  ['PUT', '/api/v1/namespaces/team-a/finalize', 'writing the finalize of namespace team-a'],
  ['PATCH', '/apis/coordination.k8s.io/v1/namespaces/default/leases/a', 'writing lease a'],
  ['POST', '/apis/rbac.authorization.k8s.io/v1/roles', 'creating an object of roles'],
  ['POST', '/apis/demo.example.com/v1/namespaces/default/databases/a/backup', 'calling backup of database a'],
] as const)('%s %s is described as "%s"', (method, path, action) => {
  expect(actionOf({ method, path, body: undefined }, [Database])).toBe(action)
})
