import type { FromSchema } from './api/schema.ts'
import { type Clock, systemClock } from './clock.ts'

/**
 * The schema of `status.conditions`, for a model's declaration:
 *
 *     status: { type: 'object', properties: { conditions: conditionsSchema } }
 *
 * The shape is that of Kubernetes' `metav1.Condition`.
 */
export const conditionsSchema = Object.freeze({
  type: 'array',
  items: {
    type: 'object',
    required: ['type', 'status', 'lastTransitionTime'],
    properties: {
      type: {
        type: 'string',
        description: 'The aspect of the object, for example Ready. Unique in the list.',
      },
      status: { type: 'string', enum: ['True', 'False', 'Unknown'] },
      reason: { type: 'string', description: 'Machine-readable reason in CamelCase.' },
      message: { type: 'string', description: 'Human-readable details.' },
      lastTransitionTime: {
        type: 'string',
        format: 'date-time',
        description: 'The last time the status changed.',
      },
      observedGeneration: {
        type: 'integer',
        description:
          'The metadata.generation that the condition was set for; if older than the current one, it is outdated.',
      },
    },
  },
} as const)

/** The state of one aspect of an object, as reported by a controller. */
export type Condition = FromSchema<typeof conditionsSchema>[number]

/**
 * Returns a copy of the conditions with one of them set. `lastTransitionTime` changes only if the condition is new or
 * its `status` changes, so setting the same condition again changes nothing. As Kubernetes' `meta.SetStatusCondition`.
 */
export function setCondition(
  conditions: readonly Condition[] | undefined,
  wanted: Omit<Condition, 'lastTransitionTime'>,
  clock: Pick<Clock, 'now'> = systemClock,
): Condition[] {
  const before = getCondition(conditions, wanted.type)
  const lastTransitionTime =
    before?.status === wanted.status ? before.lastTransitionTime : new Date(clock.now()).toISOString()
  const after: Condition = { ...wanted, lastTransitionTime }
  if (before === undefined) return [...(conditions ?? []), after]
  return (conditions ?? []).map(condition => (condition === before ? after : condition))
}

/** Returns a copy of the conditions without those of the given type. */
export function removeCondition(conditions: readonly Condition[] | undefined, type: string): Condition[] {
  return (conditions ?? []).filter(condition => condition.type !== type)
}

/** Returns the condition of the given type, or undefined. */
export function getCondition(
  conditions: readonly Condition[] | undefined,
  type: string,
): Condition | undefined {
  return conditions?.find(condition => condition.type === type)
}

/** Returns true if the condition exists and its status is `True`. */
export function isConditionTrue(conditions: readonly Condition[] | undefined, type: string): boolean {
  return getCondition(conditions, type)?.status === 'True'
}
