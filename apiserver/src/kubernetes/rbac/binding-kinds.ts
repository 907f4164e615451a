import type { HookViolation } from '@setpoint/controller-runtime/api'
import { checkName, checkSubdomain, isRecord } from '@setpoint/controller-runtime/api'
import { defineBuiltInModel } from '@setpoint/controller-runtime/internal'
import type { BareObject, ComputedColumn } from '../../model/index.ts'
import { type Fields, recordsOf } from '../fields.ts'
import type { BuiltInKind } from '../kinds/built-in-kind.ts'
import { ageColumn } from '../kinds/columns.ts'
import type { EscalationCheck } from './escalation.ts'
import { rbacGroup } from './read-roles.ts'

const text = { type: 'string' } as const

const schema = {
  roleRef: {
    type: 'object',
    description: 'The role whose rules are granted. It cannot be changed.',
    'x-kubernetes-map-type': 'atomic',
    required: ['kind', 'name'],
    properties: { apiGroup: text, kind: text, name: text },
  },
  subjects: {
    type: 'array',
    description: 'The users, groups and service accounts that the rules are granted to.',
    items: {
      type: 'object',
      required: ['kind', 'name'],
      properties: {
        kind: { type: 'string', description: 'User, Group or ServiceAccount.' },
        apiGroup: text,
        name: text,
        namespace: {
          type: 'string',
          description: 'Of a service account. Default: the namespace of the RoleBinding.',
        },
      },
    },
  },
} as const

const shared = { group: rbacGroup, version: 'v1', names: 'path-segment', schema } as const

const roleBinding = defineBuiltInModel({
  ...shared,
  kind: 'RoleBinding',
  singular: 'rolebinding',
  plural: 'rolebindings',
  scope: 'Namespaced',
  validate: (object, { previous }) => problemsOf(object, previous, true),
})

const clusterRoleBinding = defineBuiltInModel({
  ...shared,
  kind: 'ClusterRoleBinding',
  singular: 'clusterrolebinding',
  plural: 'clusterrolebindings',
  validate: (object, { previous }) => problemsOf(object, previous, false),
})

/** `RoleBinding` and `ClusterRoleBinding`. */
export function bindingKinds(check: EscalationCheck): {
  roleBinding: BuiltInKind
  clusterRoleBinding: BuiltInKind
} {
  return {
    roleBinding: {
      model: roleBinding,
      rules: {
        columns,
        takesEffectAtOnce: true,
        created: complete,
        updated: complete,
        admit: (object, _previous, user) => check.checkBinding('rolebindings', object, user),
      },
    },
    clusterRoleBinding: {
      model: clusterRoleBinding,
      rules: {
        columns,
        takesEffectAtOnce: true,
        created: complete,
        updated: complete,
        admit: (object, _previous, user) => check.checkBinding('clusterrolebindings', object, user),
      },
    },
  }
}

const columns: readonly ComputedColumn[] = [
  {
    name: 'Role',
    type: 'string',
    description: 'The kind and name of the role.',
    cell: ({ roleRef }) => (isRecord(roleRef) ? `${roleRef.kind}/${roleRef.name}` : undefined),
  },
  ageColumn,
  subjectsColumn('Users', 'User'),
  subjectsColumn('Groups', 'Group'),
  subjectsColumn('ServiceAccounts', 'ServiceAccount'),
]

function subjectsColumn(name: string, kind: string): ComputedColumn {
  return {
    name,
    type: 'string',
    description: `The subjects of the kind ${kind}.`,
    priority: 1,
    cell: ({ subjects }) =>
      recordsOf(subjects)
        .filter(subject => subject.kind === kind)
        .map(subject =>
          kind === 'ServiceAccount' ? `${subject.namespace ?? ''}/${subject.name}` : subject.name,
        )
        .join(', '),
  }
}

/** Sets the API groups that Kubernetes sets. */
function complete(draft: BareObject): void {
  if (isRecord(draft.roleRef) && !draft.roleRef.apiGroup)
    draft.roleRef = { ...draft.roleRef, apiGroup: rbacGroup }
  if (!Array.isArray(draft.subjects)) return
  draft.subjects = draft.subjects.map((subject: unknown) =>
    isRecord(subject) && (subject.kind === 'User' || subject.kind === 'Group') && !subject.apiGroup
      ? { ...subject, apiGroup: rbacGroup }
      : subject,
  )
}

/** As Kubernetes validates a binding. */
function problemsOf(object: Fields, previous: Fields | undefined, isNamespaced: boolean): HookViolation[] {
  const kinds = isNamespaced ? ['Role', 'ClusterRole'] : ['ClusterRole']
  const problems = recordsOf(object.subjects).flatMap((subject, at) =>
    problemsOfSubject(subject, `subjects[${at}]`, isNamespaced),
  )
  const { roleRef } = object
  if (!isRecord(roleRef)) {
    problems.push({ field: 'roleRef', message: 'is required', reason: 'FieldValueRequired' })
    return problems
  }
  const { apiGroup, kind, name } = roleRef
  if (apiGroup !== rbacGroup) problems.push({ field: 'roleRef.apiGroup', message: `must be ${rbacGroup}` })
  if (!kinds.includes(String(kind)))
    problems.push({ field: 'roleRef.kind', message: `must be ${kinds.join(' or ')}` })
  const wrong = checkName(String(name), 'path-segment')
  if (wrong !== undefined) problems.push({ field: 'roleRef.name', message: wrong })
  const before = previous?.roleRef
  if (
    isRecord(before) &&
    (['apiGroup', 'kind', 'name'] as const).some(field => before[field] !== roleRef[field])
  )
    problems.push({ field: 'roleRef', message: 'cannot change roleRef' })
  return problems
}

function problemsOfSubject(
  { kind, apiGroup, name, namespace }: Fields,
  place: string,
  isNamespaced: boolean,
): HookViolation[] {
  const problems: HookViolation[] = []
  if (name === '')
    problems.push({ field: `${place}.name`, message: 'is required', reason: 'FieldValueRequired' })
  const isAccount = kind === 'ServiceAccount'
  if (!isAccount && kind !== 'User' && kind !== 'Group')
    return [...problems, { field: `${place}.kind`, message: 'must be User, Group or ServiceAccount' }]
  const group = isAccount ? '' : rbacGroup
  if ((apiGroup ?? '') !== group)
    problems.push({ field: `${place}.apiGroup`, message: `must be ${JSON.stringify(group)}` })
  if (!isAccount) return problems
  if (name !== '' && checkSubdomain(String(name)) !== undefined)
    problems.push({ field: `${place}.name`, message: 'must be the name of a service account' })
  if (!namespace && !isNamespaced)
    problems.push({ field: `${place}.namespace`, message: 'is required', reason: 'FieldValueRequired' })
  return problems
}
