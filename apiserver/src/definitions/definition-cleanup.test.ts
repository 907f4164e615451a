import { expect, it } from 'vitest'
import { definitionOf } from '../../../test/support/definitions.ts'
import { openRooms, thing } from '../../../test/support/rooms.ts'
import { defaultWriteOptions } from '../registry/index.ts'
import { cleanUp } from './definition-cleanup.ts'
import { cleanupFinalizer, definitionKind } from './kind/index.ts'
import { readDefinition } from './stored-definition.ts'

it('the clean-up of a definition that has ended leaves the objects of a later one of the same name', async () => {
  await using rooms = await openRooms()
  const { storage, registry, served } = rooms
  await registry.create(served, thing('of-the-later-one'), defaultWriteOptions)
  // As a server that is behind still sees it.
  const metadata = { uid: 'earlier', finalizers: [cleanupFinalizer], deletionTimestamp: 'then' }
  const definition = definitionOf({ plural: 'things', group: 'test.example.com', metadata })
  const ended = readDefinition(Buffer.from(JSON.stringify(definition)))
  const parts = { definitions: definitionKind(), registry, writes: registry, storage, now: () => 0 }
  const { revision } = await registry.records.storedVersions(served)
  expect(await cleanUp(parts, ended, served, new AbortController().signal)).toBe(true)
  expect(await registry.readLive(served, 'of-the-later-one')).toBeDefined()
  expect((await registry.records.storedVersions(served)).revision).toBe(revision)
})
