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
 * @param asInKubernetes set if the error has only a message, and is about the patch if there is one
 * @throws ApiError 400 with all of them, under `Strict`; 422 for a patch as in Kubernetes
 */
export function warningsOfFields(
  unknown: readonly string[],
  { fieldValidation = 'Ignore', duplicates = [] }: Partial<WriteOptions>,
  asInKubernetes: { readonly isPatch: boolean } | false = false,
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
  const message = `strict decoding error: ${messages.join(', ')}`
  if (asInKubernetes === false) throw new ApiError('BadRequest', message, { causes: faults })
  throw new ApiError(asInKubernetes.isPatch ? 'Invalid' : 'BadRequest', message)
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
