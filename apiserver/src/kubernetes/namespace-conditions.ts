import { errorMessage, isRecord } from '@setpoint/controller-runtime/api'
import type { BareObject } from '../model/index.ts'

/** What the deletion of a namespace's objects has found and left, by kind: `<plural>.<group>`. */
export class NamespaceContent {
  /** The number of objects that are left. */
  readonly kinds = new Map<string, number>()
  /** The number of objects that are left, by each finalizer that they wait for. */
  readonly finalizers = new Map<string, number>()
  /** The kinds that this server does not serve, and so cannot delete. */
  readonly unserved = new Set<string>()
  /** Why kinds could not be deleted. */
  readonly failures: string[] = []
  /** True if no object was found. One that was found may have been removed. */
  isEmpty = true

  addUnserved(kind: string, objects: number): void {
    this.unserved.add(kind)
    increase(this.kinds, kind, objects)
  }

  /** Adds an object that waits for finalizers. */
  addHeld(kind: string, finalizers: readonly string[]): void {
    increase(this.kinds, kind, 1)
    for (const finalizer of finalizers) increase(this.finalizers, finalizer, 1)
  }

  addFailure(kind: string, error: unknown): void {
    this.failures.push(`${kind}: ${errorMessage(error)}`)
  }
}

function increase(counts: Map<string, number>, name: string, by: number): void {
  counts.set(name, (counts.get(name) ?? 0) + by)
}

interface Condition {
  readonly type: string
  readonly status: 'True' | 'False'
  readonly reason: string
  readonly message: string
}

/**
 * Returns the conditions of a namespace that is being deleted, in Kubernetes' words. Those that have not changed keep
 * their time.
 */
export function conditionsOf(
  { status }: Pick<BareObject, 'status'>,
  content: NamespaceContent,
  now: number,
): object[] {
  const known = isRecord(status) && Array.isArray(status.conditions) ? status.conditions.filter(isRecord) : []
  return conditionsNow(content).map(condition => {
    const before = known.find(({ type }) => type === condition.type)
    const lastTransitionTime =
      before?.status === condition.status
        ? before.lastTransitionTime
        : `${new Date(now).toISOString().slice(0, 19)}Z`
    return { ...condition, lastTransitionTime }
  })
}

function conditionsNow({ kinds, finalizers, unserved, failures }: NamespaceContent): readonly Condition[] {
  const undeleted = [...Array.from(unserved, kind => `${kind} is not served here`), ...failures].sort()
  return [
    unserved.size > 0
      ? failure('DeletionDiscoveryFailure', 'DiscoveryFailed', `Not served here: ${[...unserved].join(', ')}`)
      : success('DeletionDiscoveryFailure', 'ResourcesDiscovered', 'All resources successfully discovered'),
    // Kubernetes' controller parses the names in the discovery of other servers. Here they are never malformed.
    success(
      'DeletionGroupVersionParsingFailure',
      'ParsedGroupVersions',
      'All legacy kube types successfully parsed',
    ),
    undeleted.length > 0
      ? failure(
          'DeletionContentFailure',
          'ContentDeletionFailed',
          `Failed to delete all resource types, ${undeleted.length} remaining: ${undeleted.join(', ')}`,
        )
      : success(
          'DeletionContentFailure',
          'ContentDeleted',
          'All content successfully deleted, may be waiting on finalization',
        ),
    kinds.size > 0
      ? failure(
          'ContentRemaining',
          'SomeResourcesRemain',
          `Some resources are remaining: ${listed(kinds, (kind, count) => `${kind} has ${count} resource instances`)}`,
        )
      : success('ContentRemaining', 'ContentRemoved', 'All content successfully removed'),
    finalizers.size > 0
      ? failure(
          'FinalizersRemaining',
          'SomeFinalizerRemain',
          `Some finalizers are remaining: ${listed(finalizers, (finalizer, count) => `${finalizer} in ${count} resource instances`)}`,
        )
      : success('FinalizersRemaining', 'ContentRemoved', 'All content successfully removed'),
  ]
}

function failure(type: string, reason: string, message: string): Condition {
  return { type: `Namespace${type}`, status: 'True', reason, message }
}

function success(type: string, reason: string, message: string): Condition {
  return { type: `Namespace${type}`, status: 'False', reason, message }
}

function listed(counts: ReadonlyMap<string, number>, text: (name: string, count: number) => string): string {
  return [...counts]
    .map(([name, count]) => text(name, count))
    .sort()
    .join(', ')
}
