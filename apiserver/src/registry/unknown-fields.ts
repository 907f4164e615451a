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

/** A fault of a body that `fieldValidation` decides about. */
interface FieldFault {
  readonly reason: 'FieldValueDuplicate' | 'FieldValueInvalid'
  readonly message: string
  readonly field?: string
}

/**
 * Returns a warning for each duplicate and each unknown field, in the order of Kubernetes.
 * @param isQuiet true if the error has only a message, as in Kubernetes
 * @throws ApiError 400 with all of them, under `Strict`
 */
export function warningsOfFields(
  unknown: readonly string[],
  { fieldValidation = 'Ignore', duplicates = [] }: Partial<WriteOptions>,
  isQuiet = false,
): string[] {
  if (fieldValidation === 'Ignore' || unknown.length + duplicates.length === 0) return []
  const faults: FieldFault[] = [
    ...duplicates.map(each => ({ reason: 'FieldValueDuplicate' as const, ...each })),
    ...unknown.map(field => ({
      reason: 'FieldValueInvalid' as const,
      message: `unknown field "${field}"`,
      field,
    })),
  ].slice(0, objectLimits.violations)
  const messages = faults.map(({ message }) => message)
  if (fieldValidation === 'Warn') return messages
  throw new ApiError(
    'BadRequest',
    `strict decoding error: ${messages.join(', ')}`,
    isQuiet ? {} : { causes: faults },
  )
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
    if (!schemas.knows(field) && !fieldsOfAllKinds.includes(field)) fields.push(formatPath([field]))
  }
  return fields
}
