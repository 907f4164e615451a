import { defineBuiltInModel } from '../api/built-in-model.ts'
import type { ObjectOf } from '../api/model.ts'
import { immutableField } from './immutable-field.ts'

/** The kind `ConfigMap` of `v1`, as in Kubernetes: configuration as keys and values. */
export const ConfigMap = defineBuiltInModel({
  group: '',
  version: 'v1',
  kind: 'ConfigMap',
  singular: 'configmap',
  plural: 'configmaps',
  shortNames: ['cm'],
  scope: 'Namespaced',
  names: 'dns-subdomain',
  schema: {
    data: {
      type: 'object',
      additionalProperties: { type: 'string' },
      description:
        "The values that are text. A key consists of letters, digits, '-', '_' and '.', and is not in binaryData.",
    },
    binaryData: {
      type: 'object',
      additionalProperties: { type: 'string', format: 'byte' },
      description:
        "The values that are bytes, in base64. A key consists of letters, digits, '-', '_' and '.', and is not in data.",
    },
    immutable: immutableField,
  },
})

/** Configuration as keys and values. */
export type ConfigMap = ObjectOf<typeof ConfigMap>
