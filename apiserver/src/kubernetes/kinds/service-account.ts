import { defineBuiltInModel } from '@setpoint/controller-runtime/internal'
import type { BuiltInKind } from './built-in-kind.ts'
import { ageColumn } from './columns.ts'
import { objectReference } from './object-reference.ts'

/** `ServiceAccount` of `v1`: the identity of a program. */
export const serviceAccount: BuiltInKind = {
  model: defineBuiltInModel({
    group: '',
    version: 'v1',
    kind: 'ServiceAccount',
    singular: 'serviceaccount',
    plural: 'serviceaccounts',
    shortNames: ['sa'],
    scope: 'Namespaced',
    names: 'dns-subdomain',
    schema: {
      secrets: {
        type: 'array',
        items: { ...objectReference('A secret.'), required: ['name'] },
        'x-kubernetes-list-type': 'map',
        'x-kubernetes-list-map-keys': ['name'],
        description: 'Secrets that programs of this account may use.',
      },
      imagePullSecrets: {
        type: 'array',
        items: {
          type: 'object',
          properties: { name: { type: 'string', description: 'The name of the secret.' } },
          'x-kubernetes-map-type': 'atomic',
        },
        'x-kubernetes-list-type': 'atomic',
        description: 'Secrets for pulling images. The server does not use them.',
      },
      automountServiceAccountToken: {
        type: 'boolean',
        description: 'Whether pods mount a token of the account. The server does not use it.',
      },
    },
  }),
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
