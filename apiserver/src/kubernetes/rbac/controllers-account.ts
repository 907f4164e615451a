import { bootstrappingLabels, type DefaultObject } from './default-object.ts'
import { rbacGroup } from './read-roles.ts'

/** The group of processes with controllers that have a token of their own instead of one of the account. */
export const controllersGroup = 'setpoint:controllers'

const account = { namespace: 'setpoint-system', name: 'controllers' } as const

/** The subjects of every binding for processes with controllers. */
export const controllersSubjects: readonly Readonly<Record<string, string>>[] = [
  { apiGroup: rbacGroup, kind: 'Group', name: controllersGroup },
  { kind: 'ServiceAccount', ...account },
]

/** The ServiceAccount whose short-lived tokens processes with controllers use. An operator's changes stay. */
export const controllersAccount: DefaultObject = { ...account, labels: {}, content: {}, completed: 'never' }

const issuer = { namespace: account.namespace, name: 'setpoint:controllers-token-issuer' }

/** The Role that allows its subjects to issue tokens of the account, and nothing else. */
export const controllersTokenRole: DefaultObject = {
  ...issuer,
  labels: bootstrappingLabels,
  content: {
    rules: [
      {
        verbs: ['create'],
        apiGroups: [''],
        resources: ['serviceaccounts/token'],
        resourceNames: [account.name],
      },
    ],
  },
}

export const controllersTokenBinding: DefaultObject = {
  ...issuer,
  labels: bootstrappingLabels,
  content: {
    roleRef: { apiGroup: rbacGroup, kind: 'Role', name: issuer.name },
    subjects: [
      {
        apiGroup: rbacGroup,
        kind: 'Group',
        name: `setpoint:token-issuers:${account.namespace}:${account.name}`,
      },
      // It has the rights of the account anyway.
      { apiGroup: rbacGroup, kind: 'Group', name: controllersGroup },
    ],
  },
}
