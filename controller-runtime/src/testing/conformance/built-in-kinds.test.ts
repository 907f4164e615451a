import { expect, test } from 'vitest'
import { Gadget } from '../../../../test/support/sdk/sample-models.ts'
import { ConfigMap, Lease, Secret } from '../../kinds/index.ts'
import { definePlugin } from '../../plugin/plugin.ts'
import { startTestServer } from '../test-server.ts'
import { reconcilerConformance } from './index.ts'

/** Reconcilers that use kinds of Kubernetes, which every server has. */

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
