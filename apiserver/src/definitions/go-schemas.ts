import { isRecord } from '@setpoint/controller-runtime/api'
import {
  type CompileSchemas,
  compileSchemasWhenUsed,
  type FieldPath,
  formatPath,
  type JsonObject,
  type SchemaSubject,
  schemaDefaults,
} from '../model/index.ts'
import { decodedAs, type GoFields } from './go-shape.ts'

/** The type of a kind, but for apiVersion, kind and metadata. */
export interface KindShape {
  readonly struct: GoFields
}

/** Returns what compiles the schemas of a kind whose objects have the fields of a Go type, and no others. */
export function schemasOf(shape: KindShape): CompileSchemas {
  return (schema, options) => {
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
      unknownFields: object => unknownFields(shape, object),
      prunes: true,
      prune: object => prune(shape, object),
    }
  }
}

function unknownFields(shape: KindShape, object: Readonly<SchemaSubject>): string[] {
  const found: FieldPath[] = []
  decodedAs(shape, contentOf(shape, object), path => found.push(path))
  return found.slice(0, schemaDefaults.maxUnknownFields).map(formatPath)
}

const resourceFields: ReadonlySet<string> = new Set(['apiVersion', 'kind', 'metadata'])

function prune<T extends SchemaSubject>(shape: KindShape, object: T): T {
  const decoded = decodedAs(shape, contentOf(shape, object))
  const pruned = { ...object, ...(isRecord(decoded) && decoded) }
  for (const field of Object.keys(pruned))
    if (!shape.struct.has(field) && !resourceFields.has(field)) delete pruned[field]
  return pruned
}

function contentOf({ struct }: KindShape, object: Readonly<SchemaSubject>): JsonObject {
  const given = [...struct.keys()].filter(field => object[field] !== undefined)
  return Object.fromEntries(given.map(field => [field, object[field]]))
}
