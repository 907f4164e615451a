/**
 * Schemas and values as CEL sees them, as in Kubernetes. Fields that a schema does not declare do not exist, and
 * neither do declared ones that are null. A value without a type is dynamic.
 */

import { isRecord } from '@setpoint/controller-runtime/api'
import {
  type CelType,
  type CelValue,
  celName,
  Duration,
  dyn,
  listOf,
  markDistinct,
  Timestamp,
} from './cel/index.ts'
import type { JsonObject } from './json-value.ts'
import { keysOf } from './schema-extensions.ts'

/** The values of lists and objects, with the schema that they were converted by. */
export type ConvertedValues = Map<object, { readonly schema: unknown; readonly converted: CelValue }>

/** Converts schemas to types. The type of one schema is always the same object. */
export class CelSchema {
  readonly #types = new Map<JsonObject, CelType>()

  /** Returns the type of the values of a schema that are not null. */
  typeOf(schema: unknown): CelType {
    if (!isRecord(schema)) return dyn
    let type = this.#types.get(schema)
    if (type === undefined) {
      type = this.#makeType(schema)
      this.#types.set(schema, type)
    }
    return type
  }

  #makeType(schema: JsonObject): CelType {
    switch (schema.type) {
      case 'boolean':
        return { kind: 'bool' }
      case 'integer':
        return { kind: 'int' }
      case 'number':
        return { kind: 'double' }
      case 'string':
        return { kind: stringKinds[String(schema.format)] ?? 'string' }
      case 'array':
        return listOf(this.typeOf(schema.items))
      case 'object': {
        const { properties, additionalProperties } = schema
        if (!isRecord(properties) && isRecord(additionalProperties))
          return { kind: 'map', value: this.typeOf(additionalProperties) }
        const fields = fieldsOf(schema).map(([name, property]) => [name, this.typeOf(property)] as const)
        return { kind: 'object', fields: new Map(fields) }
      }
      default:
        return dyn
    }
  }

  /**
   * Returns the value of CEL for a JSON value. The value itself decides if its type is not the schema's.
   * @param known the values converted so far. The parts of an object are converted once.
   */
  valueOf(schema: unknown, value: unknown, known: ConvertedValues): CelValue {
    if (typeof value !== 'object' || value === null) return this.#scalarOf(schema, value)
    const before = known.get(value)
    if (before?.schema === schema && before !== undefined) return before.converted
    const converted = this.#makeValue(schema, value, known)
    known.set(value, { schema, converted })
    return converted
  }

  #scalarOf(schema: unknown, value: unknown): CelValue {
    const { kind } = this.typeOf(schema)
    if (typeof value === 'number') return kind !== 'double' && Number.isInteger(value) ? BigInt(value) : value
    if (typeof value === 'string') {
      if (kind === 'bytes') return Buffer.from(value, 'base64')
      if (kind === 'duration') return durationOf(value)
      return kind === 'timestamp' ? timestampOf(value) : value
    }
    return typeof value === 'boolean' ? value : null
  }

  #makeValue(schema: unknown, value: object, known: ConvertedValues): CelValue {
    const { items, additionalProperties, ...rest } = isRecord(schema) ? schema : {}
    if (Array.isArray(value)) {
      const list = value.map(item => this.valueOf(items, item, known))
      const listType = rest['x-kubernetes-list-type']
      if (listType !== 'set' && listType !== 'map') return list
      return markDistinct(
        list,
        keysOf(rest).flatMap(key => celName(key) ?? []),
      )
    }
    const fields = new Map<CelValue, CelValue>()
    if (this.typeOf(schema).kind === 'object' && isRecord(schema)) {
      for (const [name, property, field] of fieldsOf(schema)) {
        const given = Object.hasOwn(value, field) ? Reflect.get(value, field) : undefined
        if (given !== undefined && given !== null) fields.set(name, this.valueOf(property, given, known))
      }
      return fields
    }
    for (const [key, item] of Object.entries(value))
      fields.set(key, this.valueOf(additionalProperties, item, known))
    return fields
  }
}

const stringKinds: Readonly<Record<string, 'bytes' | 'timestamp' | 'duration'>> = {
  byte: 'bytes',
  date: 'timestamp',
  'date-time': 'timestamp',
  duration: 'duration',
}

/** A text that is no duration of Go stays a text. Rules that use it fail then. */
function durationOf(text: string): CelValue {
  try {
    return Duration.parse(text)
  } catch {
    return text
  }
}

/** A text that is no timestamp stays a text. Rules that use it fail then. */
function timestampOf(text: string): CelValue {
  try {
    return Timestamp.parse(text)
  } catch {
    return text
  }
}

const text = { type: 'string' }
const resourceFields = {
  apiVersion: text,
  kind: text,
  metadata: { type: 'object', properties: { name: text, generateName: text } },
}

/** Returns the fields of an object that expressions can read: name, schema and name in JSON. */
function fieldsOf(schema: JsonObject): [name: string, schema: unknown, field: string][] {
  const declared = isRecord(schema.properties) ? schema.properties : {}
  const isResource = schema['x-kubernetes-embedded-resource'] === true
  const properties = isResource ? { ...declared, ...resourceFields } : declared
  return Object.entries(properties).flatMap(([field, property]): [string, unknown, string][] => {
    const name = celName(field)
    return name === undefined ? [] : [[name, property, field]]
  })
}
