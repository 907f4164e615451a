import { isRecord } from '@setpoint/controller-runtime/api'
import { type KindRules, ServedModel } from '../../model/index.ts'
import { schemasOf } from '../go-schemas.ts'
import { completeChanged, completeNew } from './defaults.ts'
import { definitionModel } from './definition-model.ts'
import { definitionShape } from './definition-shape.ts'
import { beginDeletion } from './deletion.ts'
import { formatWarnings } from './format-warnings.ts'

const rules: KindRules = {
  hasGeneration: true,
  // `ResetObjectMetaForStatus` of the strategy compares the new object with itself.
  statusTakesMetadata: true,
  columns: [
    {
      name: 'Created At',
      type: 'string',
      description: 'The time of the creation.',
      cell: ({ metadata }) => (isRecord(metadata) ? metadata.creationTimestamp : undefined),
    },
  ],
  takesEffectAtOnce: true,
  needsVersion: true,
  deleting: beginDeletion,
  holds: ({ metadata }) => metadata.deletionTimestamp === undefined,
  created: completeNew,
  updated: completeChanged,
  // Loads the engine of rules, which a server without definitions does not need.
  inspect: async (object, previous, { scope }) =>
    (await import('./validation/index.ts')).inspectDefinition(object, previous, scope),
  warningsOf: (object, previous, scope) => (scope === 'object' ? formatWarnings(object, previous) : []),
}

/**
 * Returns the kind `CustomResourceDefinition`, not served yet. A schema cannot describe `openAPIV3Schema`, which contains itself:
 * its keywords, as all fields, are those of the Go types.
 */
export function definitionKind(): ServedModel {
  return new ServedModel(definitionModel, undefined, { rules, compile: schemasOf(definitionShape) })
}
