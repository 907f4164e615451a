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
 * so servers at the same work only repeat each other's.
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
  await parts.registry.records.end(kind)
  const left = await deleteObjects(parts, kind, signal)
  if (left === 0) return release(parts, definition, completed)
  const message = `CustomResource deletion is in progress: ${left} ${left === 1 ? 'object waits for its' : 'objects wait for their'} finalizers`
  await tell(parts, definition, { ...inProgress, message })
  return false
}

/** Deletes the objects of a kind. Returns the number of those that it has found and that are still there. */
async function deleteObjects(
  { storage, writes }: CleanupParts,
  kind: ServedModel,
  signal: AbortSignal,
): Promise<number> {
  let left = 0
  const { pageSize: limit } = cleanupDefaults
  for await (const pairs of currentPages(storage, kind.keyPrefix, { limit, signal, keysOnly: true })) {
    await deleteAll({
      registry: writes,
      served: kind,
      keys: pairs.map(({ key }): ObjectKey => key.slice(kind.keyPrefix.length)),
      deletion: {},
      options: { ...serviceWriteOptions, signal },
      deleted({ isRemoved }) {
        if (isRemoved !== true) left++
      },
    })
  }
  return left
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
