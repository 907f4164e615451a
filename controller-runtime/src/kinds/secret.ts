import { defineBuiltInModel } from '../api/built-in-model.ts'
import { selectableField } from '../api/index-spec.ts'
import type { ObjectOf } from '../api/model.ts'
import { immutableField } from './immutable-field.ts'

/** The kind `Secret` of `v1`, as in Kubernetes: confidential bytes. */
export const Secret = defineBuiltInModel({
  group: '',
  version: 'v1',
  kind: 'Secret',
  singular: 'secret',
  plural: 'secrets',
  scope: 'Namespaced',
  names: 'dns-subdomain',
  sensitive: true,
  schema: {
    type: {
      type: 'string',
      description: 'What the data is for, for example kubernetes.io/tls. It cannot change. Default: Opaque.',
    },
    data: {
      type: 'object',
      additionalProperties: { type: 'string', format: 'byte' },
      description: "The values in base64. A key consists of letters, digits, '-', '_' and '.'.",
    },
    stringData: {
      type: 'object',
      additionalProperties: { type: 'string' },
      description: 'Values as text, for writing only: they are merged into data and never returned.',
    },
    immutable: immutableField,
  },
  indexes: [selectableField({ name: 'type', indexFunc: ({ type }) => type })],
})

/** Confidential bytes, by key. */
export type Secret = ObjectOf<typeof Secret>
