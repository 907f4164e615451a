import { isRecord } from '@setpoint/controller-runtime/api'
import {
  type Binding,
  type PolicyRule,
  type Role,
  type RoleRef,
  type Subject,
  serviceAccountUser,
} from '../../security/index.ts'
import { type Fields, recordOf, recordsOf, textOf, textsOf } from '../fields.ts'
import { readSelector, textMapOf } from '../label-selector.ts'

export const rbacGroup = 'rbac.authorization.k8s.io'

/** Returns what a Role or ClusterRole grants. Ignores what its schema would refuse. */
export function readRole({ metadata, rules, aggregationRule }: Fields): Role {
  const { labels } = recordOf(metadata)
  const aggregates = isRecord(aggregationRule)
    ? recordsOf(aggregationRule.clusterRoleSelectors).map(readSelector)
    : undefined
  return { rules: readRules(rules), labels: textMapOf(labels), aggregates }
}

export function readRules(rules: unknown): PolicyRule[] {
  return recordsOf(rules).map(({ verbs, apiGroups, resources, resourceNames, nonResourceURLs }) => ({
    verbs: textsOf(verbs),
    ...listOf('apiGroups', apiGroups),
    ...listOf('resources', resources),
    ...listOf('resourceNames', resourceNames),
    ...listOf('nonResourceURLs', nonResourceURLs),
  }))
}

/**
 * Returns what a RoleBinding or ClusterRoleBinding binds.
 * @param namespace of the RoleBinding, and of its service accounts that name none
 */
export function readBinding({ roleRef, subjects }: Fields, namespace: string | undefined): Binding {
  const bound = recordsOf(subjects).flatMap(subject => readSubject(subject, namespace))
  return { role: readRoleRef(roleRef), subjects: bound }
}

export function readRoleRef(roleRef: unknown): RoleRef {
  const { kind, name } = recordOf(roleRef)
  return { kind: kind === 'Role' ? 'Role' : 'ClusterRole', name: textOf(name) }
}

/** A service account is a user. */
function readSubject(subject: Fields, namespaceOfBinding: string | undefined): Subject[] {
  const { kind } = subject
  const name = textOf(subject.name)
  if (kind === 'User' || kind === 'Group') return [{ kind, name }]
  const namespace = textOf(subject.namespace) || namespaceOfBinding
  if (kind !== 'ServiceAccount' || namespace === undefined) return []
  return [{ kind: 'User', name: serviceAccountUser({ namespace, name }) }]
}

function listOf<Name extends string>(name: Name, value: unknown): { [K in Name]?: readonly string[] } {
  const list = textsOf(value)
  const field: { [K in Name]?: readonly string[] } = {}
  if (list.length > 0) field[name] = list
  return field
}
