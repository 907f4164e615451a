import { randomUUID } from 'node:crypto'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { toRevision } from '@setpoint/controller-runtime/api'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { type EtcdProcess, patientMs, startEtcd } from '../../../test/support/etcd.ts'
import { openEmbeddedStorage, replaceEmbeddedStore } from './embedded/index.ts'
import { openEtcdStorage, replaceEtcdStore } from './etcd/index.ts'
import {
  CompactedError,
  IncompleteRestoreError,
  type Replacement,
  type Storage,
  StoreLockedError,
  StoreNotEmptyError,
  WrongStoreError,
} from './index.ts'

let etcd: EtcdProcess
beforeAll(async () => {
  etcd = await startEtcd({ unsafeNoFsync: true })
})
afterAll(() => etcd?.stop())

interface Place {
  open(): Promise<Storage>
  replace(options?: { above?: number; force?: boolean }): Promise<Replacement>
}

const { signal } = new AbortController()
const asked = ({ above = 1_000_000_000, force = false } = {}) => ({ above: toRevision(above), force, signal })

async function onEmbedded(): Promise<Place> {
  const dataDir = await mkdtemp(join(tmpdir(), 'setpoint-replacement-'))
  onTestFinished(() => rm(dataDir, { recursive: true }))
  return {
    open: () => openEmbeddedStorage({ dataDir }),
    replace: options => replaceEmbeddedStore({ dataDir }, asked(options)),
  }
}

async function onEtcd(): Promise<Place> {
  const options = { endpoints: [etcd.endpoint], prefix: `/${randomUUID()}`, deadlineMs: patientMs }
  return {
    open: () => openEtcdStorage(options),
    replace: given => replaceEtcdStore(options, asked(given)),
  }
}

async function put(storage: Storage, key: string, value = 'x'): Promise<number> {
  const onSuccess = [{ type: 'put', key, value: Buffer.from(value) } as const]
  return (await storage.transact({ compares: [], onSuccess }, { signal })).revision
}

async function keysOf(storage: Storage): Promise<string[]> {
  return (await storage.list('')).pairs.map(({ key }) => key)
}

async function firstOf(storage: Storage, after: number): Promise<unknown> {
  for await (const batch of storage.watch('', { after: toRevision(after), signal })) return batch
  return undefined
}

describe.each([
  ['embedded', onEmbedded],
  ['etcd', onEtcd],
] as const)('a store that is replaced on %s', (_, placed) => {
  test('has only the new content, above every version before, and no history from before', async () => {
    const place = await placed()
    const before = await place.open()
    const old = await put(before, 'a')
    await put(before, 'b')
    const { current } = await before.head()
    await before.close()
    await expect(place.replace()).rejects.toBeInstanceOf(StoreNotEmptyError)
    for (const above of [1_000_000_000, 5]) {
      const replacement = await place.replace({ above, force: true })
      const first = await put(replacement.storage, 'c')
      expect(first).toBeGreaterThan(Math.max(above, current))
      await replacement.complete()
      await replacement.close()
      const after = await place.open()
      onTestFinished(() => after.close())
      expect(await keysOf(after)).toEqual(['c'])
      const { pair } = await after.get('c')
      expect(pair?.modRevision).toBe(first)
      for (const revision of [old, current, first - 1]) {
        await expect(after.list('', { revision: toRevision(revision) })).rejects.toBeInstanceOf(
          CompactedError,
        )
        await expect(firstOf(after, revision)).rejects.toBeInstanceOf(CompactedError)
        const compares = [{ key: 'c', modRevision: toRevision(revision) }]
        expect(await after.transact({ compares, onSuccess: [] })).toMatchObject({ succeeded: false })
      }
      const { current: now } = await after.head()
      const watched = firstOf(after, now)
      const next = await put(after, 'd')
      expect(await watched).toMatchObject({ revision: next, changes: [{ key: 'd', revision: next }] })
      await after.close()
    }
  })
})

test('a replacement on the embedded store locks the folder, and leaves the store as it was if it is given up', async () => {
  const place = await onEmbedded()
  const before = await place.open()
  const revision = await put(before, 'a')
  await before.close()
  const replacement = await place.replace({ force: true })
  await put(replacement.storage, 'b')
  await expect(place.open()).rejects.toBeInstanceOf(StoreLockedError)
  await expect(place.replace({ force: true })).rejects.toBeInstanceOf(StoreLockedError)
  await replacement.close()
  const after = await place.open()
  expect(await keysOf(after)).toEqual(['a'])
  expect(await after.head()).toMatchObject({ current: revision })
  await after.close()
})

test('a replacement on the embedded store that was killed between its last two steps is not said to be undone', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'setpoint-replacement-'))
  onTestFinished(() => rm(dataDir, { recursive: true }))
  const replacement = await replaceEmbeddedStore({ dataDir }, asked())
  await put(replacement.storage, 'restored')
  await replacement.complete()
  for (let times = 0; times < 2; times++) await replacement.close()
  // As it was before the folder was removed.
  await mkdir(join(dataDir, 'restore'))
  await writeFile(join(dataDir, 'restore', 'holder.mdb'), '')
  const refusal =
    /or when it was complete; run it again with --force, or remove \S+ to go on with the store as it is$/
  await expect(openEmbeddedStorage({ dataDir })).rejects.toThrow(refusal)
  await expect(replaceEmbeddedStore({ dataDir }, asked())).rejects.toThrow(refusal)
  await rm(join(dataDir, 'restore'), { recursive: true })
  const after = await openEmbeddedStorage({ dataDir })
  expect(await keysOf(after)).toEqual(['restored'])
  await after.close()
})

describe('while a store on etcd is replaced,', () => {
  test('those who use it are refused for good, and others until it is complete', async () => {
    const place = await onEtcd()
    const [writer, follower, reader] = [await place.open(), await place.open(), await place.open()]
    for (const each of [writer, follower, reader]) onTestFinished(() => each.close())
    const revision = await put(writer, 'a')
    await keysOf(follower)
    const following = follower.watch('', { after: toRevision(revision - 1), signal })[Symbol.asyncIterator]()
    // It is open now, so it meets the mark, not the compaction.
    await following.next()
    const end = async () => {
      while ((await following.next()).done !== true);
    }
    const refused = expect(end()).rejects.toBeInstanceOf(WrongStoreError)
    const replacement = await place.replace({ force: true })
    await expect(put(writer, 'late')).rejects.toBeInstanceOf(WrongStoreError)
    await expect(writer.head()).rejects.toBeInstanceOf(WrongStoreError)
    await refused
    await expect(reader.head()).rejects.toBeInstanceOf(IncompleteRestoreError)
    await put(replacement.storage, 'b')
    await replacement.complete()
    await replacement.close()
    expect(await keysOf(reader)).toEqual(['b'])
    await expect(writer.head()).rejects.toThrow('a backup was restored')
  })

  test('a second replacement is refused, and with force it takes over', async () => {
    const place = await onEtcd()
    const first = await place.replace()
    onTestFinished(() => first.close())
    await put(first.storage, 'a')
    await expect(place.replace()).rejects.toThrow('is not complete')
    const second = await place.replace({ force: true })
    onTestFinished(() => second.close())
    await expect(put(first.storage, 'late')).rejects.toBeInstanceOf(WrongStoreError)
    await expect(first.complete()).rejects.toThrow('another restore has taken over')
    await put(second.storage, 'b')
    await second.complete()
    const after = await place.open()
    expect(await keysOf(after)).toEqual(['b'])
    await after.close()
  })
})
