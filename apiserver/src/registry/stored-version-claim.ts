import { systemClock } from '@setpoint/controller-runtime'
import { Yielder } from '@setpoint/controller-runtime/internal'
import lessThan from 'semver/functions/lt.js'
import { objectStart, type ServedModel } from '../model/index.ts'
import { currentPages, type Storage } from '../storage/index.ts'
import type { ModelRecords, Standing, StoredVersions } from './model-record.ts'

const claimDefaults = Object.freeze({
  /** Objects in one page, held in memory together. */
  pageSize: 200,
})

/** Objects are stored in a version that the plugin does not declare. */
export class UnreadableVersionError extends Error {
  override readonly name = 'UnreadableVersionError'

  constructor({ model, versions }: ServedModel, version: string, objects: number) {
    const declared = versions.map(({ name }) => name).join(', ')
    super(
      `${objects} ${objects === 1 ? 'object' : 'objects'} of ${model.plural}.${model.group} ${objects === 1 ? 'is' : 'are'} stored in ${version}, which the plugin does not declare (it has ${declared}): add it to versions, with its conversions`,
    )
  }
}

interface Check {
  readonly storage: Storage
  readonly records: ModelRecords
  readonly served: ServedModel
  readonly signal: AbortSignal
}

interface Claim extends Check {
  /** The plugin's version. */
  readonly by: string
}

/**
 * Checks that this server can read every stored object of a model, before it claims anything.
 * @throws UnreadableVersionError, and the store's errors
 */
export async function checkStoredVersions(check: Check): Promise<void> {
  const { records, served } = check
  const { stored } = await records.storedVersions(served)
  if (stored === undefined || !stored.all.every(name => knows(served, name))) await checkObjects(check)
}

/** @throws UnreadableVersionError */
async function checkObjects(check: Check): Promise<void> {
  const { served } = check
  for (const [version, objects] of await countVersions(check))
    if (!knows(served, version)) throw new UnreadableVersionError(served, version, objects)
}

/**
 * Makes the version that this server's plugin wants the stored one, when the server starts. Every write compares the
 * record, so from then on all servers store that version, and one that does not know it refuses writes.
 *
 * Of two plugin versions the newer one decides; of equal ones, the server that starts later. An older one stores what
 * the newer one wants. The version before stays in the record until no object has it (`migrateStoredVersions`).
 *
 * Assumptions: the record exists. `checkStoredVersions` has passed.
 * @throws UnreadableVersionError, and the store's errors
 */
export async function claimStoredVersion(claim: Claim): Promise<Standing> {
  const { records, served } = claim
  for (;;) {
    const { stored, revision } = await records.storedVersions(served)
    const next = await nextVersions(claim, stored)
    if (next === undefined) break
    if ((await records.changeStoredVersions(served, next, revision)) === undefined) continue
    // Another server may have stored an object in a version unknown here, between the check and the change.
    if (stored !== undefined && !knows(served, stored.version)) await checkObjects(claim)
    break
  }
  return records.check(served)
}

/** Returns the versions to record, or undefined if the record stands. */
async function nextVersions(
  claim: Claim,
  stored: StoredVersions | undefined,
): Promise<StoredVersions | undefined> {
  const { served, by } = claim
  const version = served.storedVersion.name
  if (stored === undefined) {
    const found = [...(await countVersions(claim)).keys()]
    return { version, all: [...new Set([version, ...found])], by }
  }
  if (lessThan(by, stored.by)) return undefined
  const readable = stored.all.filter(name => knows(served, name))
  const all = [...new Set([version, ...readable])]
  const same = stored.version === version && all.length === stored.all.length && stored.by === by
  return same ? undefined : { version, all, by }
}

/**
 * Objects of a definition may be stored in a version that it no longer has. They are then unreadable, as in Kubernetes.
 */
function knows({ versions, defined }: ServedModel, name: string): boolean {
  return defined !== undefined || versions.some(version => version.name === name)
}

/** Counts the stored objects of a model by the name of their version. */
export async function countVersions({
  storage,
  served,
  signal,
}: Pick<Check, 'storage' | 'served' | 'signal'>): Promise<Map<string, number>> {
  const yielder = new Yielder(systemClock)
  const counts = new Map<string, number>()
  const { pageSize: limit } = claimDefaults
  for await (const pairs of currentPages(storage, served.keyPrefix, { limit, signal })) {
    for (const { value } of pairs) {
      const version = versionOf(value)
      if (version !== undefined) counts.set(version, (counts.get(version) ?? 0) + 1)
      const pause = yielder.pause()
      if (pause !== undefined) await pause
    }
  }
  return counts
}

/** An apiVersion has at most a sub-domain and a label. */
const longestHead = 400

/** Returns the name of the version that a value is stored in, without decoding it. Undefined if it is malformed. */
export function versionOf(value: Buffer): string | undefined {
  const start = objectStart(value)
  const head = value.toString('latin1', start, start + longestHead)
  return /^\{"apiVersion":"(?:[^"/]*\/)?([^"]*)"/.exec(head)?.[1]
}
