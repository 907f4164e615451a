import { Findings } from '../../findings.ts'
import { hasKnownReview } from '../../webhooks/index.ts'
import type { ConversionLeniency } from './conversion.ts'
import { isBundle } from './conversion.ts'
import type { DefinitionContent } from './definition.ts'
import { checkItems, granularKeyword } from './list-keywords.ts'
import { hasUnknownType, type SchemaLeniency } from './openapi-schema.ts'
import { hasUnknownFields } from './pruned-defaults.ts'
import { forEachPart, type SchemaProps } from './schema-props.ts'
import { schemasOf } from './versions.ts'

/** What is not demanded of a changed definition, because the stored one does not keep it either. As in Kubernetes. */
export interface Leniency extends SchemaLeniency {
  /** Defaults may have unknown fields. */
  readonly allowsUnknownInDefaults: boolean
}

const strict: Leniency = {
  allowsGranularSets: false,
  allowsOptionalKeys: false,
  allowsUnknownTypes: false,
  allowsUnknownInDefaults: false,
}

/** Walks over all stored schemas. */
export function leniencyAfter(previous: DefinitionContent | undefined): Leniency {
  if (previous === undefined) return strict
  const faults: Faults = {
    granularSets: false,
    optionalKeys: false,
    unknownTypes: false,
    unknownInDefaults: false,
  }
  for (const { schema } of schemasOf(previous.spec)) findFaults(schema, faults)
  return {
    allowsGranularSets: faults.granularSets,
    allowsOptionalKeys: faults.optionalKeys,
    allowsUnknownTypes: faults.unknownTypes,
    allowsUnknownInDefaults: faults.unknownInDefaults,
  }
}

/** The same for the conversion. Kubernetes takes any bundle until the kind is served. */
export function conversionLeniencyAfter(previous: DefinitionContent | undefined): ConversionLeniency {
  if (previous === undefined) return { allowsInvalidBundle: true, allowsUnknownReviews: false }
  const { clientConfig, conversionReviewVersions: reviews = [] } = previous.spec.conversion?.webhook ?? {}
  const { caBundle = '' } = clientConfig ?? {}
  return {
    allowsInvalidBundle: !isEstablished(previous) || (caBundle !== '' && !isBundle(caBundle)),
    allowsUnknownReviews: reviews.length > 0 && !hasKnownReview(reviews),
  }
}

/** Returns true if all versions must have a schema: otherwise only those that are served. */
export function requiresSchemas(previous: DefinitionContent | undefined): boolean {
  const { versions = [] } = previous?.spec ?? {}
  return versions.every(({ schema }) => schema?.openAPIV3Schema !== undefined)
}

/** What stored schemas break. */
interface Faults {
  granularSets: boolean
  optionalKeys: boolean
  unknownTypes: boolean
  unknownInDefaults: boolean
}

function findFaults(schema: SchemaProps, faults: Faults): void {
  if (schema['x-kubernetes-list-type'] !== undefined) {
    faults.granularSets ||= granularKeyword(schema) !== undefined
    faults.optionalKeys ||= hasOptionalKeys(schema)
  }
  faults.unknownTypes ||= hasUnknownType(schema)
  if (schema.default !== undefined) faults.unknownInDefaults ||= hasUnknownFields(schema, schema.default)
  forEachPart(schema, part => findFaults(part, faults))
}

/** Returns true if the kind is served, or was. */
export function isEstablished({ status: { conditions = [] } }: DefinitionContent): boolean {
  return conditions.some(({ type, status }) => type === 'Established' && status === 'True')
}

function hasOptionalKeys(schema: SchemaProps): boolean {
  const found = new Findings()
  checkItems(schema, '', found)
  return !found.isEmpty
}
