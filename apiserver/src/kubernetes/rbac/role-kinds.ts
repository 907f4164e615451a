import type { HookViolation } from '@setpoint/controller-runtime/api'
import { isRecord } from '@setpoint/controller-runtime/api'
import { defineBuiltInModel } from '@setpoint/controller-runtime/internal'
import { costOfRules } from '../../security/index.ts'
import { recordsOf, textsOf } from '../fields.ts'
import type { BuiltInKind } from '../kinds/built-in-kind.ts'
import { problemsOfSelector } from '../label-selector.ts'
import type { EscalationCheck } from './escalation.ts'
import { rbacGroup, readRules } from './read-roles.ts'

export const roleDefaults = Object.freeze({
  /**
   * Combinations of verbs, groups, resources and names in the rules of a role. Each is an entry of the index in memory.
   */
  combinations: 10_000,
})

const texts = { type: 'array', items: { type: 'string' } } as const

const rules = {
  type: 'array',
  description: 'What the role allows. Rules only add up.',
  items: {
    type: 'object',
    required: ['verbs'],
    properties: {
      verbs: { ...texts, description: 'Verbs such as get and create, or * for all.' },
      apiGroups: { ...texts, description: 'API groups; the empty one is the core group, * is all.' },
      resources: { ...texts, description: 'Plurals, <plural>/<subresource>, */<subresource>, or * for all.' },
      resourceNames: { ...texts, description: 'Names of objects. Without any, all names.' },
      nonResourceURLs: {
        ...texts,
        description: 'Paths that are not about objects, or prefixes that end with *. Only in a ClusterRole.',
      },
    },
  },
} as const

const aggregationRule = {
  type: 'object',
  description: 'The server replaces the rules by those of all ClusterRoles that a selector matches.',
  properties: {
    clusterRoleSelectors: {
      type: 'array',
      items: {
        type: 'object',
        properties: {
          matchLabels: { type: 'object', additionalProperties: { type: 'string' } },
          matchExpressions: {
            type: 'array',
            items: {
              type: 'object',
              required: ['key', 'operator'],
              properties: {
                key: { type: 'string' },
                operator: { type: 'string', enum: ['In', 'NotIn', 'Exists', 'DoesNotExist'] },
                values: texts,
              },
            },
          },
        },
      },
    },
  },
} as const

const shared = { group: rbacGroup, version: 'v1', names: 'path-segment' } as const

const role = defineBuiltInModel({
  ...shared,
  kind: 'Role',
  singular: 'role',
  plural: 'roles',
  scope: 'Namespaced',
  schema: { rules },
  validate: object => problemsOfRules(object.rules, true),
})

const clusterRole = defineBuiltInModel({
  ...shared,
  kind: 'ClusterRole',
  singular: 'clusterrole',
  plural: 'clusterroles',
  schema: { rules, aggregationRule },
  validate: object => [
    ...problemsOfRules(object.rules, false),
    ...problemsOfAggregation(object.aggregationRule),
  ],
})

const columns = [
  {
    name: 'Created At',
    type: 'string',
    description: 'The time of the creation.',
    cell: ({ metadata }: Readonly<Record<string, unknown>>) =>
      isRecord(metadata) ? metadata.creationTimestamp : undefined,
  },
] as const

/** `Role` and `ClusterRole`. */
export function roleKinds(check: EscalationCheck): { role: BuiltInKind; clusterRole: BuiltInKind } {
  return {
    role: {
      model: role,
      rules: {
        columns,
        takesEffectAtOnce: true,
        admit: (object, previous, user) => check.checkRole('roles', object, previous, user),
      },
    },
    clusterRole: {
      model: clusterRole,
      rules: {
        columns,
        takesEffectAtOnce: true,
        admit: (object, previous, user) => check.checkRole('clusterroles', object, previous, user),
      },
    },
  }
}

function problemsOfRules(value: unknown, isNamespaced: boolean): HookViolation[] {
  const all = recordsOf(value)
  const problems = all.flatMap((rule, at) => problemsOfRule(rule, `rules[${at}]`, isNamespaced))
  const combinations = costOfRules(readRules(value))
  if (combinations > roleDefaults.combinations)
    problems.push({
      field: 'rules',
      message: `must have at most ${roleDefaults.combinations} combinations of verbs, groups, resources and names, has ${combinations}`,
      reason: 'FieldValueTooMany',
    })
  return problems
}

/** As Kubernetes validates a rule. */
function problemsOfRule(
  { verbs, apiGroups, resources, resourceNames, nonResourceURLs }: Readonly<Record<string, unknown>>,
  place: string,
  isNamespaced: boolean,
): HookViolation[] {
  const has = (list: unknown) => textsOf(list).length > 0
  const required = (field: string, message: string): HookViolation => ({
    field: `${place}.${field}`,
    message,
    reason: 'FieldValueRequired',
  })
  const problems: HookViolation[] = []
  if (!has(verbs)) problems.push(required('verbs', 'verbs must contain at least one value'))
  if (has(nonResourceURLs)) {
    const refuse = (message: string) => problems.push({ field: `${place}.nonResourceURLs`, message })
    if (isNamespaced) refuse('namespaced rules cannot apply to non-resource URLs')
    if (has(apiGroups) || has(resources) || has(resourceNames))
      refuse('rules cannot apply to both regular resources and non-resource URLs')
    return problems
  }
  if (!has(apiGroups))
    problems.push(required('apiGroups', 'resource rules must supply at least one api group'))
  if (!has(resources))
    problems.push(required('resources', 'resource rules must supply at least one resource'))
  return problems
}

function problemsOfAggregation(value: unknown): HookViolation[] {
  if (!isRecord(value)) return []
  const place = 'aggregationRule.clusterRoleSelectors'
  const selectors = recordsOf(value.clusterRoleSelectors)
  if (selectors.length === 0)
    return [
      {
        field: place,
        message: 'at least one clusterRoleSelector required if aggregationRule is non-nil',
        reason: 'FieldValueRequired',
      },
    ]
  return selectors.flatMap((selector, at) => problemsOfSelector(selector, `${place}[${at}]`))
}
