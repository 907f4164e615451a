import type { HookObject, ValidateContext } from '@setpoint/controller-runtime/api'
import { ConfigMap } from '@setpoint/controller-runtime/internal'
import { formatPath } from '../../model/index.ts'
import { recordOf } from '../fields.ts'
import type { BuiltInKind } from './built-in-kind.ts'
import { ageColumn } from './columns.ts'
import {
  bytesOfBase64,
  bytesOfText,
  countOf,
  joinBase64,
  problemsOfImmutable,
  problemsOfKeys,
  problemsOfSize,
} from './data.ts'

/** `ConfigMap` of `v1`: configuration as keys and values. */
export const configMap: BuiltInKind = {
  model: {
    ...ConfigMap,
    validate(object: HookObject<ConfigMap>, { previous }: ValidateContext<ConfigMap>) {
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
  },
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
