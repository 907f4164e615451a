import { isRecord } from '@setpoint/controller-runtime/api'
import { type FieldPath, type JsonObject, setOwn } from '../model/index.ts'

/** A type of Go, as its decoder and encoder for JSON treat it. */
export type GoShape =
  | 'string'
  | 'boolean'
  | 'integer'
  | 'number'
  /** Any JSON value, kept as it is. */
  | 'any'
  | { readonly list: GoShape }
  | { readonly map: GoShape }
  | { readonly struct: GoFields }
  /** One of several types, by the JSON value. Its decoder reads on without strictness, so that unknown fields are not reported. */
  | { readonly oneOf: readonly GoShape[] }

export type GoFields = ReadonlyMap<string, GoField>

export interface GoField {
  readonly shape: GoShape
  /**
   * When the encoder writes it: `always`; `present` unless it is absent (a pointer with `omitempty`); `filled` unless it is
   * absent or the zero value (`omitempty`).
   */
  readonly written: 'always' | 'present' | 'filled'
}

/** A value of another type than Go's. */
export interface Mistyped {
  readonly path: FieldPath
  readonly expected: string
}

/**
 * Returns a value as Go decodes it: without unknown fields. A null field is absent; a null in a list or map is the zero value.
 * Values of another type stay as they are.
 * @param report is called with the path of each unknown field
 */
export function decodedAs(
  shape: GoShape,
  value: unknown,
  report?: (path: FieldPath) => void,
  path: FieldPath = [],
): unknown {
  if (typeof shape === 'string' || typeof value !== 'object' || value === null) return value
  const decoded = (inner: GoShape, item: unknown, step: string | number) =>
    item === null && inner !== 'any'
      ? zeroOf(inner)
      : decodedAs(inner, item, report, report && [...path, step])
  if ('oneOf' in shape) {
    const fitting = shape.oneOf.find(each => fits(each, value))
    return fitting === undefined ? value : decodedAs(fitting, value)
  }
  if ('list' in shape)
    return Array.isArray(value) ? value.map((item, index) => decoded(shape.list, item, index)) : value
  if (!isRecord(value)) return value
  const result: JsonObject = {}
  for (const [name, item] of Object.entries(value)) {
    if ('map' in shape) {
      setOwn(result, name, decoded(shape.map, item, name))
      continue
    }
    const field = shape.struct.get(name)
    if (field === undefined) report?.([...path, name])
    else if (item !== null) result[name] = decoded(field.shape, item, name)
  }
  return result
}

/** Returns a decoded value as Go encodes it: with the zero values that are always written, and without the others. */
export function encodedAs(shape: GoShape, value: unknown): unknown {
  if (typeof shape === 'string' || typeof value !== 'object' || value === null) return value
  if ('oneOf' in shape) {
    const fitting = shape.oneOf.find(each => fits(each, value))
    return fitting === undefined ? value : encodedAs(fitting, value)
  }
  if ('list' in shape) return Array.isArray(value) ? value.map(item => encodedAs(shape.list, item)) : value
  if (!isRecord(value)) return value
  const result: JsonObject = {}
  if ('map' in shape) {
    for (const [name, item] of Object.entries(value)) setOwn(result, name, encodedAs(shape.map, item))
    return result
  }
  const { struct } = shape
  for (const name in value) {
    const field = struct.get(name)
    if (field === undefined) continue
    const item = encodedAs(field.shape, value[name])
    if (field.written !== 'filled' || !isZero(field.shape, item)) result[name] = item
  }
  for (const [name, field] of struct) {
    // A list or map that Go writes as null is absent here.
    const isNil = typeof field.shape === 'object' && !('struct' in field.shape)
    if (field.written === 'always' && !isNil && result[name] === undefined)
      result[name] = encodedAs(field.shape, zeroOf(field.shape))
  }
  return result
}

/** Calls `report` with each value of another type than the shape's. */
export function findMistyped(shape: GoShape, value: unknown, report: (found: Mistyped) => void): void {
  visitMistyped(shape, value, report, [])
}

/** @param path of the value. Changed meanwhile, so that correct values cost no copy of it. */
function visitMistyped(
  shape: GoShape,
  value: unknown,
  report: (found: Mistyped) => void,
  path: (string | number)[],
): void {
  if (value === undefined || shape === 'any') return
  const fitting =
    typeof shape === 'object' && 'oneOf' in shape ? shape.oneOf.find(each => fits(each, value)) : shape
  if (fitting === undefined || !fits(fitting, value)) {
    report({ path: [...path], expected: nameOf(shape) })
    return
  }
  if (typeof fitting === 'string') return
  const visit = (inner: GoShape, item: unknown, step: string | number) => {
    path.push(step)
    visitMistyped(inner, item, report, path)
    path.pop()
  }
  if ('list' in fitting && Array.isArray(value)) {
    for (const [index, item] of value.entries()) visit(fitting.list, item, index)
  } else if (isRecord(value)) {
    for (const name in value) {
      const inner =
        'map' in fitting ? fitting.map : 'struct' in fitting ? fitting.struct.get(name)?.shape : undefined
      if (inner !== undefined) visit(inner, value[name], name)
    }
  }
}

function fits(shape: GoShape, value: unknown): boolean {
  switch (shape) {
    case 'any':
      return true
    case 'integer':
      return Number.isSafeInteger(value)
    case 'string':
    case 'boolean':
    case 'number':
      return typeof value === shape
    default:
      if ('oneOf' in shape) return shape.oneOf.some(each => fits(each, value))
      return 'list' in shape ? Array.isArray(value) : isRecord(value)
  }
}

function nameOf(shape: GoShape): string {
  if (typeof shape === 'string') return shape === 'integer' ? 'an integer' : `a ${shape}`
  if ('oneOf' in shape) return shape.oneOf.map(nameOf).join(' or ')
  return 'list' in shape ? 'a list' : 'an object'
}

function zeroOf(shape: GoShape): unknown {
  switch (shape) {
    case 'string':
      return ''
    case 'boolean':
      return false
    case 'integer':
    case 'number':
      return 0
    case 'any':
      return null
    default:
      return 'list' in shape ? [] : {}
  }
}

/** Returns false for a value of another type, whose violation is still to be found. */
function isZero(shape: GoShape, value: unknown): boolean {
  if (!fits(shape, value)) return false
  if (Array.isArray(value)) return value.length === 0
  if (isRecord(value)) return Object.keys(value).length === 0
  return value === '' || value === false || value === 0
}
