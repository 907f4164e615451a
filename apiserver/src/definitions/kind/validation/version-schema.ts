import { CelRules } from './cel-rules.ts'
import { Defaults } from './defaults.ts'
import { Findings } from './findings.ts'
import type { Leniency } from './leniency.ts'
import { checkOpenApiSchema } from './openapi-schema.ts'
import { Patterns } from './patterns.ts'
import type { SchemaProps } from './schema-props.ts'
import { checkStructural, unreadableKeyword } from './structural.ts'
import type { VersionSchema } from './versions.ts'

/** Keywords at the root of a schema beside a status subresource. Others would not reach the schema of the status. */
const besideStatus: ReadonlySet<string> = new Set([
  'description',
  'format',
  'title',
  'maximum',
  'exclusiveMaximum',
  'minimum',
  'exclusiveMinimum',
  'maxLength',
  'minLength',
  'pattern',
  'maxItems',
  'minItems',
  'uniqueItems',
  'multipleOf',
  'required',
  'items',
  'properties',
  'externalDocs',
  'example',
  'x-kubernetes-preserve-unknown-fields',
  'x-kubernetes-validations',
])

/** Checks the schema of a version, or that of all versions. */
export function checkVersionSchema(
  { schema, place, hasStatus }: VersionSchema,
  { schema: leniency, allowsUnknownInDefaults }: Leniency,
  outer: Findings,
): void {
  const found = new Findings()
  if (hasStatus) checkRoot(schema, place, found)
  if (schema.nullable) found.forbidden(`${place}.nullable`, 'must not be true at the root')
  const unreadable = unreadableKeyword(schema)
  let rules: CelRules | undefined
  if (unreadable === undefined) {
    const before = found.total
    const patterns = new Patterns()
    checkStructural(schema, place, patterns, found)
    if (found.total === before) new Defaults(patterns, allowsUnknownInDefaults, found).check(schema, place)
    // Values have no types unless the schema is structural, and so do rules.
    if (found.total === before) rules = new CelRules(schema)
  }
  checkOpenApiSchema(schema, place, leniency, rules, found)
  if (found.isEmpty && unreadable !== undefined) found.invalid(place, unreadable)
  outer.addAll(found)
}

/** As in Kubernetes, the first keyword that is not allowed is the only violation. The keywords have the order of the Go type. */
function checkRoot(schema: SchemaProps, place: string, found: Findings): void {
  const isAllowed = (keyword: string) =>
    keyword === 'type' ? schema.type === 'object' : besideStatus.has(keyword)
  const keyword = Object.keys(schema).find(each => !isAllowed(each))
  if (keyword === 'type')
    found.invalid(`${place}.type`, 'must be object if the subresource status is enabled')
  else if (keyword !== undefined)
    found.invalid(place, `must not have ${keyword} at the root if the subresource status is enabled`)
}
