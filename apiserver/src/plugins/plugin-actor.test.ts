import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { silentLogger } from '@setpoint/controller-runtime'
import { expect, it } from 'vitest'
import { testModel } from '../../../test/support/rooms.ts'
import { RouteCallers } from '../http/index.ts'
import { ServedModel } from '../model/index.ts'
import { assembleRooms, startKind } from '../rooms.ts'
import { builtInGroups } from '../security/index.ts'
import { openEmbeddedStorage } from '../storage/embedded/index.ts'
import { PluginActor, pluginUserName } from './plugin-actor.ts'

it("ends a plugin's watch of another kind when its permission does", async () => {
  await using rooms = await startRooms()
  const { authorizer } = rooms
  const key = { namespace: undefined, name: 'demo' }
  const rules = [{ verbs: ['watch'], apiGroups: [testModel.group], resources: [testModel.plural] }]
  authorizer.update(policy => policy.setRole(key, { rules, labels: {} }))
  await expect(rooms.watch()).rejects.toMatchObject({ code: 403 })
  const subjects = [{ kind: 'User', name: pluginUserName('demo') }] as const
  const role = { kind: 'ClusterRole', name: 'demo' } as const
  authorizer.update(policy => policy.setBinding(key, { role, subjects }))
  const { end, types } = await rooms.watch()
  await expect.poll(() => types).toEqual(['BOOKMARK'])
  authorizer.update(policy => policy.setBinding(key, undefined))
  expect(await end).toMatchObject({ code: 1008 })
  await expect.poll(() => types).toEqual(['BOOKMARK', 'ERROR'])
})

it("ends a watch for the caller of a route when the caller's response has been sent", async () => {
  await using rooms = await startRooms()
  const admin = { name: 'ann', groups: [builtInGroups.admins] }
  await expect(rooms.watch(admin)).rejects.toMatchObject({ code: 403 })
  const caller = rooms.callers.enter(admin)
  const { end, types } = await rooms.watch(caller)
  await expect.poll(() => types).toEqual(['BOOKMARK'])
  rooms.callers.leave(caller)
  expect(await end).toMatchObject({ code: 1008 })
  await expect.poll(() => types).toEqual(['BOOKMARK', 'ERROR'])
})

/** Rooms that serve the test model for another plugin, and watches of it as the plugin `demo`. */
async function startRooms() {
  const dataDir = await mkdtemp(join(tmpdir(), 'setpoint-test-'))
  const log = silentLogger
  const storage = await openEmbeddedStorage({ dataDir, durable: false })
  const rooms = assembleRooms({ storage, reservedDomain: 'setpoint.dev', basePath: '', log })
  const { models, authorizer, transport, follower, hub } = rooms
  const stopping = new AbortController()
  follower.start()
  const served = new ServedModel(testModel, 'other')
  models.add(served)
  await startKind(rooms, served, { log, signal: stopping.signal })
  const callers = new RouteCallers()
  const actor = new PluginActor('demo', { authorizer, callers, isOpen: false })
  const path = `/apis/${testModel.apiVersion}/${testModel.plural}`
  return {
    authorizer,
    callers,
    /** Opens a watch. `types` grows with its events. */
    async watch(user = actor.user) {
      const opened = await transport.for(actor).watch(path, { user, signal: stopping.signal })
      const types: string[] = []
      void (async () => {
        for await (const line of opened) types.push(JSON.parse(line).type)
      })()
      return { end: opened.end, types }
    },
    async [Symbol.asyncDispose]() {
      hub.close()
      stopping.abort()
      await follower.stop()
      await storage.close()
      await rm(dataDir, { recursive: true, force: true })
    },
  }
}
