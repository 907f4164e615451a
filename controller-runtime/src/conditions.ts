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
        description: 'What is said to hold, or not, for example Ready. Unique in the list.',
      },
      status: { type: 'string', enum: ['True', 'False', 'Unknown'] },
      reason: { type: 'string', description: 'Why, in one word in CamelCase, for programs.' },
      message: { type: 'string', description: 'Why, for people.' },
      lastTransitionTime: { type: 'string', format: 'date-time', description: 'When `status` changed last.' },
      observedGeneration: {
        type: 'integer',
        description:
          'The metadata.generation that this was said of; an older one than the present is outdated.',
      },
    },
  },
} as const)

/** What a controller says about one aspect of an object. */
export type Condition = FromSchema<typeof conditionsSchema>[number]

/**
 * The conditions with one of them set, in a new array; the others stay as they are and where they are.
 * `lastTransitionTime` becomes the present time where the condition is new or its `status` changes, else it stays: so
 * saying again what was said changes nothing, and the write of it is none. As `meta.SetStatusCondition` of Kubernetes.
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

/** The conditions without one of them, in a new array. */
export function removeCondition(conditions: readonly Condition[] | undefined, type: string): Condition[] {
  return (conditions ?? []).filter(condition => condition.type !== type)
}

/** The condition of a type, or undefined. */
export function getCondition(
  conditions: readonly Condition[] | undefined,
  type: string,
): Condition | undefined {
  return conditions?.find(condition => condition.type === type)
}

/** Whether the condition is there and its status is `True`; `Unknown` is not. */
export function isConditionTrue(conditions: readonly Condition[] | undefined, type: string): boolean {
  return getCondition(conditions, type)?.status === 'True'
}
