import { type ContentSchema, type IndexSpec, isRecord, type Model } from '@setpoint/controller-runtime/api'
import { type JsonObject, setOwn } from '../model/index.ts'

/** An index that has the values of one field. */
export interface FieldIndex {
  readonly spec: IndexSpec
  /** JSONPath of the field: `.spec.color`. */
  readonly path: string
}

/** A text that shows what a function does with case, spaces and other letters. */
const probe = ' Qx/7 Ö-z'
const numericProbe = 904_317

/**
 * Returns the field whose values an index has, if its name is the path of the field, as is custom. Its function is asked about
 * two objects, with the field and without it, because nothing else shows what a function does.
 */
export function fieldOf(spec: IndexSpec, { schema, apiVersion, kind }: Model): FieldIndex | undefined {
  const steps = spec.name.split('.')
  const property = propertyAt(schema, steps)
  if (property === undefined) return undefined
  const values = probesFor(property, spec.multiple)
  if (values === undefined) return undefined
  const [value, expected] = values
  const metadata = { name: 'x', uid: 'x', creationTimestamp: '2026-01-01T00:00:00Z', generation: 1 }
  const asked = (content: JsonObject) => {
    try {
      return JSON.stringify(
        spec.valuesOf({ apiVersion, kind, metadata: { ...metadata, ...noVersion }, spec: {}, ...content }),
      )
    } catch {
      return undefined
    }
  }
  const isField =
    asked(nested(steps, value)) === JSON.stringify(expected) && asked(nested(steps.slice(0, -1), {})) === '[]'
  return isField ? { spec, path: `.${spec.name}` } : undefined
}

const noVersion = { version: '', resourceVersion: '' }

/** Returns the value of the field in the probe, and the index values that it must have; undefined for a type without any. */
function probesFor(
  property: JsonObject,
  multiple: boolean,
): [value: unknown, expected: string[]] | undefined {
  if (multiple) {
    const { items } = property
    const item = isRecord(items) ? probeOf(items.type) : undefined
    return property.type === 'array' && item !== undefined ? [[item], [String(item)]] : undefined
  }
  const value = probeOf(property.type)
  return value === undefined ? undefined : [value, [String(value)]]
}

function probeOf(type: unknown): unknown {
  if (type === 'string') return probe
  return type === 'integer' ? numericProbe : type === 'boolean' ? true : undefined
}

/** Returns the schema of the field at a path. Names with other characters than letters and digits need quotes in JSONPath. */
export function propertyAt(schema: ContentSchema, steps: readonly string[]): JsonObject | undefined {
  let at: unknown = { properties: schema }
  for (const step of steps) {
    if (!/^\w+$/.test(step) || !isRecord(at) || !isRecord(at.properties)) return undefined
    if (!Object.hasOwn(at.properties, step)) return undefined
    at = at.properties[step]
  }
  return isRecord(at) ? { ...at } : undefined
}

function nested([step = '', ...rest]: readonly string[], value: unknown): JsonObject {
  const object: JsonObject = {}
  setOwn(object, step, rest.length === 0 ? value : nested(rest, value))
  return object
}
