import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { findPythonClients } from '../scripts/clients.mjs'
import { ClientWorld, settings } from './support/client-world.ts'
import { need } from './support/tools.ts'

await need(findPythonClients)

describe.each(settings)("Kubernetes' Python client on $title", setting => {
  let world: ClientWorld
  beforeAll(async () => {
    world = await ClientWorld.start(setting)
  })
  afterAll(() => world?.end())

  it('uses built-in and custom kinds: typed, dynamic, custom objects, apply and watches', async () => {
    expect(await world.facts(await findPythonClients())).toEqual([
      ['version', expect.stringMatching(/^v1\.34\.0\+setpoint\./)],
      ['namespaces', ['default', 'setpoint-system']],
      ['config map', { a: '1', b: '2' }],
      ['deleted', [404, 'NotFound']],
      ['search', ['widgets.example.com/v1/widgets']],
      ['manager', 'python'],
      ['conflict', 409],
      [
        'watch',
        [
          ['MODIFIED', 2],
          ['MODIFIED', 3],
          ['DELETED', 3],
        ],
      ],
      ['stream', 'ADDED'],
    ])
  })
})
