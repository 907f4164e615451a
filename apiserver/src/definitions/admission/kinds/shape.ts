import { isRecord } from '@setpoint/controller-runtime/api'
import type { BareObject } from '../../../model/index.ts'
import type { KindShape } from '../../go-schemas.ts'
import { encodedAs, type GoField, type GoShape } from '../../go-shape.ts'

interface FieldSchema {
  readonly type: string
  readonly properties?: Readonly<Record<string, FieldSchema>>
  readonly items?: FieldSchema
  readonly additionalProperties?: FieldSchema
}

/** The structs that are there without any field: Go's encoder writes them although they have `omitempty`. */
const structs = ['spec', 'status', 'clientConfig']

/** The texts and numbers that are no pointers, and that may be empty: Go's encoder leaves them out then. */
const plain = ['message', 'messageExpression', 'name', 'namespace', 'caBundle', 'observedGeneration']

/**
 * Returns the Go type of a kind of the group. Its schema tells it, because almost all fields have `omitempty`; for those that
 * have not, the schema has a default, or their zero value is refused.
 */
export function shapeOf(schema: Readonly<Record<string, FieldSchema>>): KindShape {
  return { struct: fieldsOf(schema) }
}

function fieldsOf(properties: Readonly<Record<string, FieldSchema>>): ReadonlyMap<string, GoField> {
  const fields = Object.entries(properties).map(([name, schema]): [string, GoField] => {
    const isFilled = schema.items || schema.additionalProperties || plain.includes(name)
    const written = structs.includes(name) ? 'always' : isFilled ? 'filled' : 'present'
    return [name, { shape: typeOf(schema), written }]
  })
  return new Map(fields)
}

function typeOf({ type, properties, items, additionalProperties }: FieldSchema): GoShape {
  if (properties !== undefined) return { struct: fieldsOf(properties) }
  if (items !== undefined) return { list: typeOf(items) }
  if (additionalProperties !== undefined) return { map: typeOf(additionalProperties) }
  return type === 'boolean' || type === 'integer' ? type : 'string'
}

/** Replaces the content of an object by what Go's encoder writes of it: without empty fields. */
export function complete(shape: KindShape, draft: BareObject): void {
  const { apiVersion: _apiVersion, kind: _kind, metadata: _metadata, ...content } = draft
  const encoded = encodedAs(shape, content)
  for (const field of shape.struct.keys()) delete draft[field]
  if (isRecord(encoded)) Object.assign(draft, encoded)
}
