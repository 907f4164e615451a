import type { ConversionLeniency } from './conversion.ts'
import { hasKnownReview, isBundle } from './conversion.ts'
import type { DefinitionContent } from './definition.ts'
import { Findings } from './findings.ts'
import { checkItems, granularKeyword } from './list-keywords.ts'
import { hasUnknownType, type SchemaLeniency } from './openapi-schema.ts'
import { hasUnknownFields } from './pruned-defaults.ts'
import { type SchemaProps, someSchema } from './schema-props.ts'
import { unreadableKeyword } from './structural.ts'

/** What is not demanded of a changed definition, because the stored one does not keep it either. As in Kubernetes. */
export interface Leniency {
  readonly schema: SchemaLeniency
  readonly conversion: ConversionLeniency
  /** Versions may be without a schema unless they are served. */
  readonly allowsNoSchema: boolean
  /** Defaults may have unknown fields. */
  readonly allowsUnknownInDefaults: boolean
}

const strict: Leniency = {
  schema: { allowsGranularSets: false, allowsOptionalKeys: false, allowsUnknownTypes: false },
  // Kubernetes takes any bundle until the kind is served.
  conversion: { allowsInvalidBundle: true, allowsUnknownReviews: false },
  allowsNoSchema: false,
  allowsUnknownInDefaults: false,
}

export function leniencyAfter(previous: DefinitionContent | undefined): Leniency {
  if (previous === undefined) return strict
  const { versions = [], conversion } = previous.spec
  const schemas = versions.flatMap(({ schema }) => schema?.openAPIV3Schema ?? [])
  const some = (test: (schema: SchemaProps) => boolean) => schemas.some(schema => someSchema(schema, test))
  const { clientConfig, conversionReviewVersions: reviews = [] } = conversion?.webhook ?? {}
  const { caBundle = '' } = clientConfig ?? {}
  return {
    schema: {
      allowsGranularSets: some(schema => granularKeyword(schema) !== undefined),
      allowsOptionalKeys: some(hasOptionalKeys),
      allowsUnknownTypes: some(hasUnknownType),
    },
    conversion: {
      allowsInvalidBundle: !isEstablished(previous) || (caBundle !== '' && !isBundle(caBundle)),
      allowsUnknownReviews: reviews.length > 0 && !hasKnownReview(reviews),
    },
    allowsNoSchema: schemas.length < versions.length,
    allowsUnknownInDefaults: schemas
      .filter(schema => unreadableKeyword(schema) === undefined)
      .some(schema =>
        someSchema(schema, each => each.default !== undefined && hasUnknownFields(each, each.default)),
      ),
  }
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
