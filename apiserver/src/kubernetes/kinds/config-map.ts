import { defineBuiltInModel } from '@setpoint/controller-runtime/internal'
import { formatPath } from '../../model/index.ts'
import { recordOf } from '../fields.ts'
import type { BuiltInKind } from './built-in-kind.ts'
import { ageColumn } from './columns.ts'
import {
  bytesOfBase64,
  bytesOfText,
  countOf,
  immutableField,
  joinBase64,
  problemsOfImmutable,
  problemsOfKeys,
  problemsOfSize,
} from './data.ts'

/** `ConfigMap` of `v1`: configuration as keys and values. */
export const configMap: BuiltInKind = {
  model: defineBuiltInModel({
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
    validate(object, { previous }) {
      const { data, binaryData } = object
      return [
        ...problemsOfKeys(object, 'data'),
        ...problemsOfKeys(object, 'binaryData'),
        ...Object.keys(recordOf(data))
          .filter(key => Object.hasOwn(recordOf(binaryData), key))
          .map(key => ({ field: formatPath(['data', key]), message: 'duplicate of a key in binaryData' })),
        ...problemsOfSize([
          { map: data, bytesOf: bytesOfText },
          { map: binaryData, bytesOf: bytesOfBase64 },
        ]),
        ...problemsOfImmutable(object, previous, ['data', 'binaryData']),
      ]
    },
  }),
  rules: {
    columns: [
      {
        name: 'Data',
        type: 'integer',
        description: 'The number of values.',
        cell: ({ data, binaryData }) => countOf(data) + countOf(binaryData),
      },
      ageColumn,
    ],
    created: draft => joinBase64(draft, 'binaryData'),
    updated: draft => joinBase64(draft, 'binaryData'),
  },
}
