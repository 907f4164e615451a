import { defineBuiltInModel } from '../api/built-in-model.ts'
import type { ObjectOf } from '../api/model.ts'
import { objectReference } from './object-reference.ts'

/** The kind `ServiceAccount` of `v1`, as in Kubernetes: the identity of a program. */
export const ServiceAccount = defineBuiltInModel({
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
})

/** The identity of a program. */
export type ServiceAccount = ObjectOf<typeof ServiceAccount>
