import { ApiError } from '@setpoint/controller-runtime/api'
import {
  deepEqual,
  formatPath,
  objectLimits,
  parsePath,
  type SchemaSubject,
  type SchemaValidator,
  valueAt,
} from '../model/index.ts'
import type { WriteOptions } from './write-options.ts'

/** Returns a warning for each of the fields. @throws ApiError 400 with the fields, under `Strict` */
export function warningsOfUnknown(
  fields: readonly string[],
  fieldValidation: WriteOptions['fieldValidation'],
): string[] {
  if (fieldValidation === 'Ignore' || fields.length === 0) return []
  if (fieldValidation === 'Strict') {
    throw new ApiError(
      'BadRequest',
      `strict decoding error: ${fields.map(field => `unknown field "${field}"`).join(', ')}`,
      {
        causes: fields.map(field => ({
          reason: 'FieldValueInvalid',
          message: `unknown field "${field}"`,
          field,
        })),
      },
    )
  }
  return fields.map(field => `unknown field "${field}"`)
}

/** Returns the unknown fields of an object that another one does not have, or has with another value. */
export function newUnknownFields(fields: readonly string[], object: unknown, before: unknown): string[] {
  return fields.filter(field => {
    const path = parsePath(field)
    const value = valueAt(object, path)
    return value === undefined || !deepEqual(value, valueAt(before, path))
  })
}

const fieldsOfAllKinds = ['apiVersion', 'kind', 'metadata']

/** Returns the paths of the unknown fields outside metadata, at most `objectLimits.violations`. */
export function unknownFieldsOf(schemas: SchemaValidator, object: SchemaSubject): string[] {
  const fields = schemas.unknownFields(object)
  for (const field of Object.keys(object)) {
    if (fields.length >= objectLimits.violations) break
    if (object[field] === undefined) continue
    if (!schemas.fields.includes(field) && !fieldsOfAllKinds.includes(field)) fields.push(formatPath([field]))
  }
  return fields
}
