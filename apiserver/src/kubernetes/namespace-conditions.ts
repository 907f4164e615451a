import { isRecord } from '@setpoint/controller-runtime/api'
import type { BareObject } from '../model/index.ts'

/** What keeps a namespace that is being deleted. */
export interface NamespaceContent {
  /** The number of objects of each kind that were there before their deletion, by `<plural>.<group>`. */
  readonly counts: ReadonlyMap<string, number>
  /** The kinds among them that this server does not serve, and so cannot delete. */
  readonly unserved: readonly string[]
}

/**
 * Returns the conditions of a namespace with content, with Kubernetes' types and reasons. Those that have not changed keep
 * their time.
 */
export function conditionsOf(
  { status }: Pick<BareObject, 'status'>,
  { counts, unserved }: NamespaceContent,
  now: number,
): object[] {
  const remaining = [...counts].map(([title, count]) => `${title} has ${count} resource instances`).join(', ')
  const isServed = unserved.length === 0
  const wanted = [
    {
      type: 'NamespaceDeletionDiscoveryFailure',
      status: isServed ? 'False' : 'True',
      reason: isServed ? 'ResourcesDiscovered' : 'DiscoveryFailed',
      message: isServed
        ? 'All resources successfully discovered'
        : `Not served here, and therefore not deleted: ${unserved.join(', ')}`,
    },
    {
      type: 'NamespaceDeletionContentFailure',
      status: isServed ? 'False' : 'True',
      reason: isServed ? 'ContentDeleted' : 'ContentDeletionFailed',
      message: isServed
        ? 'All content successfully deleted, may be waiting on finalization'
        : 'Some content cannot be deleted',
    },
    {
      type: 'NamespaceContentRemaining',
      status: 'True',
      reason: 'SomeResourcesRemain',
      message: `Some resources are remaining: ${remaining}`,
    },
  ]
  const known = isRecord(status) && Array.isArray(status.conditions) ? status.conditions.filter(isRecord) : []
  return wanted.map(condition => {
    const before = known.find(({ type }) => type === condition.type)
    const lastTransitionTime =
      before?.status === condition.status
        ? before.lastTransitionTime
        : `${new Date(now).toISOString().slice(0, 19)}Z`
    return { ...condition, lastTransitionTime }
  })
}
