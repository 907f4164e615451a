import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { silentLogger } from '@setpoint/controller-runtime'
import { expect, it } from 'vitest'
import { testModel } from '../../../test/support/rooms.ts'
import { ServedModel } from '../model/index.ts'
import { assembleRooms, startKind } from '../rooms.ts'
import { openEmbeddedStorage } from '../storage/embedded/index.ts'
import { PluginActor, pluginUserName } from './plugin-actor.ts'

it("ends a plugin's watch of another kind when its permission does", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'setpoint-test-'))
  const log = silentLogger
  const storage = await openEmbeddedStorage({ dataDir, durable: false })
  const rooms = assembleRooms({ storage, reservedDomain: 'setpoint.dev', basePath: '', log })
  const { models, authorizer, transport, follower, hub } = rooms
  const stopping = new AbortController()
  try {
    follower.start()
    const served = new ServedModel(testModel, 'other')
    models.add(served)
    await startKind(rooms, served, { log, signal: stopping.signal })
    const actor = new PluginActor('demo', { authorizer, callers: { has: () => false }, isOpen: false })
    const path = `/apis/${testModel.apiVersion}/${testModel.plural}`
    const watch = () => transport.for(actor).watch(path, { signal: stopping.signal })
    const key = { namespace: undefined, name: 'demo' }
    const rules = [{ verbs: ['watch'], apiGroups: [testModel.group], resources: [testModel.plural] }]
    authorizer.update(policy => policy.setRole(key, { rules, labels: {} }))
    await expect(watch()).rejects.toMatchObject({ code: 403 })
    const subjects = [{ kind: 'User', name: pluginUserName('demo') }] as const
    const role = { kind: 'ClusterRole', name: 'demo' } as const
    authorizer.update(policy => policy.setBinding(key, { role, subjects }))
    const opened = await watch()
    const types: string[] = []
    const read = (async () => {
      for await (const line of opened) types.push(JSON.parse(line).type)
    })()
    await expect.poll(() => types).toEqual(['BOOKMARK'])
    authorizer.update(policy => policy.setBinding(key, undefined))
    expect(await opened.end).toMatchObject({ code: 1008 })
    await read
    expect(types).toEqual(['BOOKMARK', 'ERROR'])
  } finally {
    hub.close()
    stopping.abort()
    await follower.stop()
    await storage.close()
    await rm(dataDir, { recursive: true, force: true })
  }
})
