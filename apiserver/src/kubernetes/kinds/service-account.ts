import { ServiceAccount } from '@setpoint/controller-runtime/internal'
import type { BuiltInKind } from './built-in-kind.ts'
import { ageColumn } from './columns.ts'

/** `ServiceAccount` of `v1`: the identity of a program. */
export const serviceAccount: BuiltInKind = {
  model: ServiceAccount,
  rules: {
    columns: [
      {
        name: 'Secrets',
        type: 'integer',
        description: 'The number of secrets.',
        cell: ({ secrets }) => (Array.isArray(secrets) ? secrets.length : 0),
      },
      ageColumn,
    ],
    returnsDeleted: true,
  },
}
