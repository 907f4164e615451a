import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { findGoClients } from '../scripts/clients.mjs'
import { ClientWorld, settings } from './support/client-world.ts'
import { Kubectl } from './support/kubectl.ts'
import type { Running } from './support/server.ts'
import { need } from './support/tools.ts'

await need(findGoClients)

const acquired = /successfully acquired lease/

describe.each(settings)('client-go and controller-runtime on $title', setting => {
  let world: ClientWorld
  let program: string
  let client: Kubectl
  beforeAll(async () => {
    program = await findGoClients()
    world = await ClientWorld.start(setting, ['widgets-plugin', 'described-plugin'])
    client = await Kubectl.configured(setting.kubectl, world.kubeconfig)
  })
  afterAll(async () => {
    await client?.close()
    await world?.end()
  })

  const kubectl = (...args: string[]) => client.output(args)
  const apply = (name: string, size: number) => {
    const widget = {
      ...{ apiVersion: 'widgets.example.com/v1', kind: 'Widget' },
      ...{ metadata: { name }, spec: { size } },
    }
    return client.output(['apply', '--server-side', '-f', '-'], { input: JSON.stringify(widget) })
  }

  it.each([
    { informers: 'lists and watches', watchList: 'false', lists: 3, watchLists: 0 },
    { informers: 'watches that begin with the objects', watchList: 'true', lists: 0, watchLists: 3 },
  ])(
    'typed, dynamic and metadata clients work, with informers by $informers',
    async ({ watchList, lists, watchLists }) => {
      const env = { KUBE_FEATURE_WatchListClient: watchList }
      expect(await world.facts(program, ['informers'], env)).toEqual([
        ['typed', 'Lease'],
        ['namespaces', expect.arrayContaining(['default', 'setpoint-system'])],
        ['version', '1.34'],
        ['discovery', [expect.any(Number), expect.any(Number)]],
        ['lists', lists],
        ['watch lists', watchLists],
        // In any order.
        ...Array.from({ length: 3 }, () => ['informer', expect.stringMatching(/^(typed|dynamic|metadata)$/)]),
      ])
    },
  )

  it('the OpenAPI documents are read: Swagger 2.0 in both forms, and v3 by the types of Kubernetes', async () => {
    expect(await world.facts(program, ['openapi'])).toEqual([
      ['forms agree', true],
      [
        'models',
        expect.arrayContaining([
          'com.example.described.v1.Boat',
          'com.example.described.v1beta1.Boat',
          'core.v1.Secret',
          'io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta',
        ]),
      ],
      ['documents that change', []],
    ])
  })

  it('a typed client that accepts nothing but protobuf gets nothing else, also for errors and in watches', async () => {
    expect(await world.facts(program, ['protobuf'], {})).toEqual([
      ['equal', true],
      ['conflict', true],
      ['not found', true],
      ['events', ['MODIFIED 2 ', 'MODIFIED 2 3', 'DELETED 2 3']],
      ['expired', true],
      ['allowed', true],
    ])
  })

  it('a manager reconciles through a restart of the server and the end of its leader', async () => {
    const managers: Running[] = []
    const startManager = () => {
      const manager = world.run(program, ['manager'])
      managers.push(manager)
      return manager
    }
    try {
      const leader = startManager()
      await leader.says(acquired, 'stderr')
      await apply('one', 1)
      await kubectl('wait', 'widget/one', '--for=condition=Ready')
      expect(await kubectl('get', 'configmap', 'one', '-o', 'jsonpath={.data.size}')).toBe('1')
      await expect
        .poll(() => kubectl('describe', 'widget', 'one'))
        .toMatch(/Normal +Configured +\S+ +widget-controller +size 1\n/)

      const heir = startManager()
      await heir.says(/attempting to acquire leader lease/, 'stderr')
      await world.world.server.restart()
      await apply('one', 2)
      await kubectl('wait', 'configmap/one', '--for=jsonpath={.data.size}=2', '--timeout=120s')

      // On SIGTERM it releases the lease. Otherwise the lease must expire.
      await leader.kill(setting.secure ? 'SIGKILL' : 'SIGTERM')
      await heir.says(acquired, 'stderr')
      await kubectl('delete', 'widget', 'one')
      expect(await kubectl('get', 'widgets,configmaps', '-o', 'name')).toBe('')
      await expect.poll(() => kubectl('events')).toMatch(/CleanedUp +Widget\/one +deleted the ConfigMap/)

      expect(await heir.kill('SIGTERM')).toMatchObject({ code: 0 })
      const lease = ['get', 'lease', 'manager.widgets.example.com', '-o', 'jsonpath={.spec.holderIdentity}']
      expect(await kubectl(...lease)).toBe('')
    } finally {
      await Promise.all(managers.map(manager => manager.kill()))
    }
  })
})
