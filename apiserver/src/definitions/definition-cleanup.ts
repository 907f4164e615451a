import { isApiError, type ObjectKey } from '@setpoint/controller-runtime/api'
import type { ServedModel } from '../model/index.ts'
import { deleteAll, type Registry, serviceWriteOptions } from '../registry/index.ts'
import { currentPages, type Storage } from '../storage/index.ts'
import { type Condition, withConditions } from './definition-status.ts'
import { cleanupFinalizer } from './kind/index.ts'
import type { StoredDefinition } from './stored-definition.ts'

const cleanupDefaults = Object.freeze({
  /** Keys read at once. */
  pageSize: 500,
})

interface CleanupParts {
  /** The kind CustomResourceDefinition. */
  readonly definitions: ServedModel
  readonly registry: Registry
  readonly writes: Pick<Registry, 'patch' | 'delete'>
  readonly storage: Storage
  readonly now: () => number
}

/**
 * Goes on with the deletion of a definition: keeps every server from creating objects of its kind, deletes those that exist,
 * and takes the finalizer away once a read of the store has found none. Every server does this. Deletions are idempotent,
 * so servers at the same work only repeat each other's. One that is behind touches nothing of a later definition of the
 * same name: what it changes was there while the definition was, and has not changed since.
 * @param kind undefined if the definition was never served, so it has no objects
 * @returns true if nothing is left to do
 */
export async function cleanUp(
  parts: CleanupParts,
  definition: StoredDefinition,
  kind: ServedModel | undefined,
  signal: AbortSignal,
): Promise<boolean> {
  if (!definition.finalizers.includes(cleanupFinalizer)) return true
  if (kind === undefined) return release(parts, definition, neverEstablished)
  const isThere = () => isStillThere(parts, definition)
  if (!(await parts.registry.records.end(kind, isThere))) return true
  const left = await deleteObjects(parts, kind, isThere, signal)
  if (left === undefined) return true
  if (left === 0) return release(parts, definition, completed)
  const message = `CustomResource deletion is in progress: ${left} ${left === 1 ? 'object waits for its' : 'objects wait for their'} finalizers`
  await tell(parts, definition, { ...inProgress, message })
  return false
}

/** Returns false once another server has ended the deletion. */
async function isStillThere(
  { registry, definitions }: CleanupParts,
  { name, uid }: StoredDefinition,
): Promise<boolean> {
  return (await registry.readLive(definitions, name))?.stored.object.metadata.uid === uid
}

/**
 * Deletes the objects of a kind. Returns the number of those that wait for their finalizers, or undefined if the definition
 * has gone meanwhile.
 */
async function deleteObjects(
  { storage, writes }: CleanupParts,
  kind: ServedModel,
  isThere: () => Promise<boolean>,
  signal: AbortSignal,
): Promise<number | undefined> {
  for (;;) {
    let left = 0
    let missed = 0
    const { pageSize: limit } = cleanupDefaults
    for await (const pairs of currentPages(storage, kind.keyPrefix, { limit, signal, keysOnly: true })) {
      if (pairs.length === 0) continue
      if (!(await isThere())) return undefined
      missed += pairs.length
      await deleteAll({
        registry: writes,
        served: kind,
        keys: pairs.map(({ key }): ObjectKey => key.slice(kind.keyPrefix.length)),
        deletion: at => ({ versions: [String(pairs[at]?.modRevision)] }),
        leavesChanged: true,
        options: { ...serviceWriteOptions, signal },
        deleted({ isRemoved }) {
          missed--
          if (isRemoved !== true) left++
        },
      })
    }
    // Those that have changed or gone meanwhile.
    if (missed === 0) return left
  }
}

const inProgress = { type: 'Terminating', status: 'True', reason: 'InstanceDeletionInProgress' } as const

const completed: Condition = {
  type: 'Terminating',
  status: 'False',
  reason: 'InstanceDeletionCompleted',
  message: 'removed all instances',
}

const neverEstablished: Condition = {
  type: 'Terminating',
  status: 'False',
  reason: 'NeverEstablished',
  message: 'resource was never established',
}

async function release(
  parts: CleanupParts,
  definition: StoredDefinition,
  condition: Condition,
): Promise<boolean> {
  const { definitions, writes } = parts
  const { name, uid } = definition
  const finalizers = definition.finalizers.filter(finalizer => finalizer !== cleanupFinalizer)
  // With other finalizers, people look at the definition until those are gone too.
  if (finalizers.length > 0) await tell(parts, definition, condition)
  const document = { metadata: { uid, finalizers: finalizers.length > 0 ? finalizers : null } }
  await writes
    .patch(definitions, name, { type: 'merge', document }, 'object', serviceWriteOptions)
    .catch(ignoreRaces)
  return true
}

/** Sets a condition of a definition, unless it is set already. */
async function tell(
  { definitions, writes, now }: CleanupParts,
  { name, uid, status, conditions }: StoredDefinition,
  condition: Condition,
): Promise<void> {
  const { reason, message } = conditions.find(({ type }) => type === condition.type) ?? {}
  if (reason === condition.reason && message === condition.message) return
  const document = {
    metadata: { uid },
    status: { ...status, conditions: withConditions(conditions, [condition], now()) },
  }
  await writes
    .patch(definitions, name, { type: 'merge', document }, 'status', serviceWriteOptions)
    .catch(ignoreRaces)
}

/** Another server was faster. */
export function ignoreRaces(error: unknown): void {
  if (!isApiError(error, 'NotFound', 'Conflict')) throw error
}
