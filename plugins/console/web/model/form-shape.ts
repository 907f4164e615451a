import { type Fields, fieldsOf, isFields, listOf, textsOf } from '../api/json.ts'
import { resolved } from '../api/schema.ts'
import { type FieldPath, valueAt } from './field-path.ts'

/** A field of an object, and whether the object must have it. */
export interface NamedField {
  readonly name: string
  readonly schema: Fields
  readonly isRequired: boolean
}

/** How a value is shown in a form. */
export type Shape =
  | { readonly is: 'text' | 'number' | 'integer' | 'integer-or-text' | 'boolean' }
  | { readonly is: 'choice'; readonly values: readonly unknown[] }
  | { readonly is: 'list'; readonly items: Fields }
  | { readonly is: 'map'; readonly values: Fields }
  | { readonly is: 'group'; readonly fields: readonly NamedField[] }
  /** Edited as YAML. */
  | { readonly is: 'other'; readonly why: string }

/** Values beyond these are edited as YAML, where a person can search. */
export const formDefaults = Object.freeze({ entries: 100, characters: 10_000, depth: 10 })

/** Returns how a form shows a value of a schema. */
export function shapeOf(given: unknown, document: Fields, value: unknown, depth: number): Shape {
  const schema = resolved(given, document)
  const shape = declaredShape(schema, document)
  if (value === undefined || value === null) return shape
  const size =
    typeof value === 'string'
      ? value.length / formDefaults.characters
      : (Array.isArray(value) ? value.length : isFields(value) ? Object.keys(value).length : 0) /
        formDefaults.entries
  if (shape.is !== 'group' && size > 1) return { is: 'other', why: 'too long for a form' }
  if (depth > formDefaults.depth) return { is: 'other', why: 'nested too deeply for a form' }
  const fits =
    shape.is === 'list'
      ? Array.isArray(value)
      : shape.is === 'group' || shape.is === 'map'
        ? isFields(value)
        : shape.is === 'other' || typeof value !== 'object'
  return fits ? shape : { is: 'other', why: 'not of the type that the schema has' }
}

function declaredShape(schema: Fields, document: Fields): Shape {
  const { type, properties, additionalProperties } = schema
  if (schema['x-kubernetes-int-or-string'] === true || schema.format === 'int-or-string')
    return { is: 'integer-or-text' }
  const choices = listOf(schema.enum).filter(each => each !== null)
  if (choices.length > 0 && choices.every(each => typeof each !== 'object'))
    return { is: 'choice', values: choices }
  if (schema['x-kubernetes-preserve-unknown-fields'] === true && !isFields(properties))
    return { is: 'other', why: 'of any shape' }
  if (isFields(properties)) {
    const required = new Set(textsOf(schema.required))
    const fields = Object.entries(properties).map(([name, property]) => ({
      name,
      schema: resolved(property, document),
      isRequired: required.has(name),
    }))
    // What must be there first.
    return { is: 'group', fields: fields.toSorted((a, b) => Number(b.isRequired) - Number(a.isRequired)) }
  }
  if (isFields(additionalProperties) && Object.keys(additionalProperties).length > 0)
    return { is: 'map', values: resolved(additionalProperties, document) }
  if (type === 'array' && isFields(schema.items) && Object.keys(schema.items).length > 0)
    return { is: 'list', items: resolved(schema.items, document) }
  if (type === 'string') return { is: 'text' }
  if (type === 'boolean' || type === 'integer' || type === 'number') return { is: type }
  return { is: 'other', why: 'of any shape' }
}

/** Returns the deepest part of a path that a form shows: where a problem of the path is told. */
export function shownPath(schema: unknown, document: Fields, value: unknown, path: FieldPath): FieldPath {
  let at: unknown = schema
  let part = value
  for (const [depth, step] of path.entries()) {
    const shape = shapeOf(at, document, part, depth)
    if (shape.is === 'group') at = shape.fields.find(({ name }) => name === step)?.schema
    else if (shape.is === 'map') at = Object.hasOwn(fieldsOf(part), step) ? shape.values : undefined
    else if (shape.is === 'list') at = Number(step) < listOf(part).length ? shape.items : undefined
    else return path.slice(0, depth)
    if (at === undefined) return path.slice(0, depth)
    part = valueAt(part, [step])
    if (part === undefined || part === null) return path.slice(0, depth + 1)
  }
  return path
}

/** Says what a schema asks of a value, for a person: its description, default and bounds. */
export function hintOf(schema: Fields): string {
  const { description, minimum, maximum, pattern, format } = schema
  const bounds =
    typeof minimum === 'number' && typeof maximum === 'number'
      ? `From ${minimum} to ${maximum}.`
      : typeof minimum === 'number'
        ? `At least ${minimum}.`
        : typeof maximum === 'number'
          ? `At most ${maximum}.`
          : ''
  const preset = schema.default
  return [
    typeof description === 'string' ? description : '',
    bounds,
    preset !== undefined && typeof preset !== 'object' ? `Default: ${preset === '' ? '""' : preset}.` : '',
    format === 'date-time' ? 'A time such as 2026-01-31T10:00:00Z.' : '',
    typeof pattern === 'string' && typeof description !== 'string' ? `Pattern: ${pattern}` : '',
  ]
    .filter(each => each !== '')
    .join(' ')
}

/** Reads a number that is being typed. A text that is none stays one, so that nothing typed is lost, and the server says so. */
export function typedNumber(text: string, isWhole: boolean): number | string | undefined {
  const trimmed = text.trim()
  if (trimmed === '') return undefined
  const number = Number(trimmed)
  // While `1.` or `1.0` is typed, it stays as it is.
  if (!isWhole && String(number) !== trimmed) return text
  return Number.isFinite(number) && !isInexact(trimmed) ? number : text
}

export function numberProblem(value: unknown, isInteger: boolean): string {
  if (typeof value === 'number') return isInteger && !Number.isInteger(value) ? 'Must be an integer.' : ''
  if (typeof value !== 'string') return ''
  if (isInexact(value.trim())) return 'This number cannot be kept exactly.'
  return Number.isFinite(Number(value)) && value.trim() !== '' ? '' : 'Must be a number.'
}

function isInexact(text: string): boolean {
  return /^[+-]?\d+$/.test(text) && !Number.isSafeInteger(Number(text))
}
