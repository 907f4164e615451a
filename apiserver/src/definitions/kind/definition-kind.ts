import { isRecord } from '@setpoint/controller-runtime/api'
import {
  type CompileSchemas,
  compileSchemasWhenUsed,
  type FieldPath,
  formatPath,
  type KindRules,
  type SchemaSubject,
  ServedModel,
  schemaDefaults,
} from '../../model/index.ts'
import { completeChanged, completeNew } from './defaults.ts'
import { definitionModel } from './definition-model.ts'
import { definitionShape } from './definition-shape.ts'
import { beginDeletion } from './deletion.ts'
import { formatWarnings } from './format-warnings.ts'
import { decodedAs } from './go-shape.ts'

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
  inspect: async (object, previous, scope) =>
    (await import('./validation/index.ts')).inspectDefinition(object, previous, scope),
  warningsOf: (object, previous, scope) => (scope === 'object' ? formatWarnings(object, previous) : []),
}

/** Returns the kind `CustomResourceDefinition`, not served yet. */
export function definitionKind(): ServedModel {
  return new ServedModel(definitionModel, undefined, { rules, compile })
}

/** A schema cannot describe `openAPIV3Schema`, which contains itself. Its keywords, as all fields, are those of the Go types. */
const compile: CompileSchemas = (schema, options) => {
  const compiled = compileSchemasWhenUsed(schema, options)
  return {
    remaining: undefined,
    knows: field => compiled.knows(field),
    get rules() {
      return compiled.rules
    },
    validate: object => compiled.validate(object),
    applyDefaults: object => compiled.applyDefaults(object),
    withDefaults: object => compiled.withDefaults(object),
    unknownFields,
    prunes: true,
    prune,
  }
}

function unknownFields(object: Readonly<SchemaSubject>): string[] {
  const found: FieldPath[] = []
  const { spec, status } = object
  decodedAs(definitionShape, { spec, status }, path => found.push(path))
  return found.slice(0, schemaDefaults.maxUnknownFields).map(formatPath)
}

const resourceFields: ReadonlySet<string> = new Set(['apiVersion', 'kind', 'metadata'])

function prune<T extends SchemaSubject>(object: T): T {
  const decoded = decodedAs(definitionShape, { spec: object.spec, status: object.status })
  const pruned = { ...object, ...(isRecord(decoded) && decoded) }
  for (const field of Object.keys(pruned))
    if (!definitionShape.struct.has(field) && !resourceFields.has(field)) delete pruned[field]
  return pruned
}
