import { ApiError, isRecord } from '@setpoint/controller-runtime/api'
import { type BareObject, objectLimits, quote, type ServedVersion } from '../model/index.ts'
import { checkTypeMeta } from './as-in-kubernetes.ts'
import { Causes } from './causes.ts'
import { type ClientMeta, type MetadataNotes, readMetadata } from './metadata.ts'
import { badRequest } from './refusals.ts'
import { newUnknownFields, unknownFieldsOf, warningsOfFields } from './unknown-fields.ts'
import type { WriteOptions } from './write-options.ts'

/** The parts of a request's body. */
export interface ClientObject {
  readonly meta: ClientMeta
  readonly content: Readonly<Record<string, unknown>>
  /** Violations found in the metadata, reported together with all others. */
  readonly causes: Causes
  /** Texts of `Warning` headers. */
  readonly warnings: readonly string[]
}

/**
 * Splits a decoded body into its parts. Bodies of built-in kinds may omit apiVersion and kind, as in Kubernetes.
 * Unknown fields are removed if the model prunes them.
 * @param patched the object that a patch has changed to `body`. Its unknown fields are not the patch's.
 * @throws ApiError 400 if it is not an object of the path's kind and version, or has unknown or duplicate fields under
 * `Strict`
 */
export function readClientObject(
  version: ServedVersion,
  body: unknown,
  options: Partial<WriteOptions> = {},
  patched?: BareObject,
): ClientObject {
  if (!isRecord(body)) throw badRequest('the body must be one object with apiVersion, kind and metadata')
  checkTopLevelFields(body, patched)
  checkTypeMeta(version, body, patched !== undefined)
  const absent = version.isBuiltIn ? version : { apiVersion: undefined, kind: undefined }
  const { apiVersion = absent.apiVersion, kind = absent.kind, metadata, ...content } = body
  if (apiVersion !== version.apiVersion || kind !== version.kind) {
    throw badRequest(describeMismatch(version, apiVersion, kind))
  }
  if (metadata !== undefined && metadata !== null && !isRecord(metadata))
    throw badRequest('metadata must be an object')
  const causes = new Causes()
  const notes: MetadataNotes = { unknownFields: [], warnings: [] }
  const meta = readMetadata(metadata ?? {}, causes, notes)
  const { schemas } = version
  const isOfKubernetes = version.isBuiltIn || version.defined !== undefined
  const { dropsNulls = isOfKubernetes, fieldValidation = 'Ignore' } = options
  const unknown = fieldValidation === 'Ignore' ? [] : unknownFieldsOf(schemas, content)
  const sent = patched === undefined ? unknown : newUnknownFields(unknown, content, patched)
  const warnings = [
    ...warningsOfFields(
      [...notes.unknownFields, ...sent],
      options,
      isOfKubernetes && { isPatch: version.defined !== undefined && patched !== undefined },
    ),
    ...notes.warnings,
  ]
  const kept = schemas.prune(content)
  return { meta, content: dropsNulls ? version.withoutNulls(kept) : kept, causes, warnings }
}

/** Refuses an object that has too many top-level fields, and more than the stored one. @throws ApiError 413 */
function checkTopLevelFields(body: object, stored: object = {}): void {
  const count = Object.keys(body).length
  if (count <= objectLimits.topLevelFields || count <= Object.keys(stored).length) return
  throw new ApiError(
    'RequestEntityTooLarge',
    `the object has ${count} top-level fields, at most ${objectLimits.topLevelFields} are allowed`,
  )
}

function describeMismatch(version: ServedVersion, apiVersion: unknown, kind: unknown): string {
  const takes = `this path takes kind ${show(version.kind)} of apiVersion ${show(version.apiVersion)}`
  if (kind === undefined || apiVersion === undefined) {
    const missing = [apiVersion === undefined && 'apiVersion', kind === undefined && 'kind']
      .filter(Boolean)
      .join(' and ')
    return `the body has no ${missing}: ${takes}`
  }
  return `the body is of kind ${show(kind)} and apiVersion ${show(apiVersion)}, but ${takes}`
}

function show(value: unknown): string {
  if (typeof value === 'string') return quote(value)
  return typeof value === 'object' && value !== null ? 'not a string' : String(value)
}
