import { type Revision, zeroRevision } from '@setpoint/controller-runtime/api'
import { objectsPrefix } from '../model/index.ts'
import { migrationsPrefix, recordsPrefix, reservationsPrefix } from '../registry/index.ts'
import { currentPages, type Storage } from '../storage/index.ts'
import type { PluginClaim } from './purge-plugins.ts'
import type { KindContent } from './purge-survey.ts'

export const purgeDefaults = Object.freeze({
  /** Keys of a transaction, with its comparison below the limit of the store. */
  keys: 100,
  /** Transactions at once. Keeps a store busy that takes milliseconds for each. */
  concurrency: 4,
})

/** A server has begun to serve a kind of the group. What is there from then on is its own, and stays. */
export class GroupServedError extends Error {
  override readonly name = 'GroupServedError'
}

interface Purge {
  readonly storage: Storage
  readonly group: string
  /** As `surveyGroup` has found them. */
  readonly kinds: readonly KindContent[]
  readonly signal: AbortSignal
  /** Called with the number of keys that are removed so far. */
  readonly onProgress?: (keys: number) => void
}

/**
 * Removes everything that the store has of a group: of each kind the record of unique indexes and stored versions, then
 * the objects with their reservations, whatever their finalizers, and the progress of a migration.
 *
 * A server writes the record of a kind before it serves it, and every write of unique values compares the record. So
 * the record goes first, and every other transaction compares that it is still absent: nothing is removed that a server
 * has stored since.
 *
 * It may be interrupted anywhere, and be run again. Only servers that do not serve the group may run meanwhile, because
 * others would see several objects go in one version.
 * @returns the number of keys removed
 * @throws GroupServedError, the store's errors, the signal's reason
 */
export async function purgeGroup(purge: Purge): Promise<number> {
  const { storage, group, kinds, signal, onProgress } = purge
  let removed = 0
  const count = (keys: number) => {
    removed += keys
    onProgress?.(removed)
  }
  for (const { plural, recordRevision } of kinds) {
    const resource = `${group}/${plural}`
    const record = recordsPrefix + resource
    if (recordRevision !== zeroRevision) {
      await remove(storage, { record, recordRevision, keys: [record] }, signal)
      count(1)
    }
    for (const prefix of [`${objectsPrefix}${resource}/`, `${reservationsPrefix}${resource}/`])
      await removeBelow(storage, prefix, record, signal, count)
    const migration = migrationsPrefix + resource
    const { pair } = await storage.get(migration, { signal })
    if (pair === undefined) continue
    await remove(storage, { record, recordRevision: zeroRevision, keys: [migration] }, signal)
    count(1)
  }
  return removed
}

async function removeBelow(
  storage: Storage,
  prefix: string,
  record: string,
  signal: AbortSignal,
  count: (keys: number) => void,
): Promise<void> {
  const { keys: size, concurrency } = purgeDefaults
  const options = { signal, keysOnly: true, limit: size * concurrency }
  for await (const pairs of currentPages(storage, prefix, options)) {
    const batches = Array.from({ length: Math.ceil(pairs.length / size) }, (_, at) =>
      pairs.slice(at * size, (at + 1) * size).map(({ key }) => key),
    )
    await Promise.all(
      batches.map(async keys => {
        await remove(storage, { record, recordRevision: zeroRevision, keys }, signal)
        count(keys.length)
      }),
    )
  }
}

/** @throws GroupServedError if the record has another revision */
async function remove(
  storage: Storage,
  { record, recordRevision, keys }: { record: string; recordRevision: Revision; keys: readonly string[] },
  signal: AbortSignal,
): Promise<void> {
  const { succeeded } = await storage.transact(
    {
      compares: [{ key: record, modRevision: recordRevision }],
      onSuccess: keys.map(key => ({ type: 'delete', key })),
    },
    { signal },
  )
  if (succeeded) return
  const kind = record.slice(recordsPrefix.length)
  throw new GroupServedError(
    `a server has started to serve ${kind} meanwhile: remove the plugin from every server, and run the command again`,
  )
}

/**
 * Removes the `Plugin` objects of plugins that have no other kinds. Only for a store that no server has open.
 * @returns the names of the plugins
 * @throws the store's errors
 */
export async function removePluginObjects(
  storage: Storage,
  plugins: readonly PluginClaim[],
  signal: AbortSignal,
): Promise<string[]> {
  const gone: string[] = []
  for (const { name, hasOthers, key, modRevision } of plugins) {
    if (hasOthers) continue
    const transaction = {
      compares: [{ key, modRevision }],
      onSuccess: [{ type: 'delete' as const, key }],
    }
    if ((await storage.transact(transaction, { signal })).succeeded) gone.push(name)
  }
  return gone
}
