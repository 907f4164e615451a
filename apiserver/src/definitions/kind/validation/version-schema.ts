import { Findings } from '../../findings.ts'
import { schemaShape } from '../definition-shape.ts'
import { CelRules } from './cel-rules.ts'
import { Defaults } from './defaults.ts'
import type { Leniency } from './leniency.ts'
import { checkOpenApiSchema } from './openapi-schema.ts'
import { Patterns } from './patterns.ts'
import { SchemaFacts } from './schema-facts.ts'
import type { SchemaProps } from './schema-props.ts'
import { checkStructural } from './structural.ts'
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

/** Checks the schema of a version, or that of all versions, in steps of some milliseconds. */
export function* checkVersionSchema(
  { schema, place, hasStatus }: VersionSchema,
  leniency: Leniency,
  outer: Findings,
): Generator<void> {
  const found = new Findings()
  if (hasStatus) checkRoot(schema, place, found)
  if (schema.nullable) found.forbidden(`${place}.nullable`, 'must not be true at the root')
  const facts = new SchemaFacts(schema)
  const { unreadable } = facts.of(schema)
  yield
  const before = found.total
  if (unreadable === undefined) yield* checkStructure(schema, place, facts, leniency, found)
  // Values have no types unless the schema is structural, and expressions over them do not compile.
  const isStructural = unreadable === undefined && found.total === before
  const placed = checkOpenApiSchema(schema, place, leniency, facts, found)
  yield
  const rules = new CelRules(schema)
  if (isStructural) for (const each of placed) yield* rules.check(each, found)
  if (found.isEmpty && unreadable !== undefined) found.invalid(place, unreadable)
  outer.addAll(found.violations)
}

/** As in Kubernetes, defaults are checked only if the schema is structural. */
function* checkStructure(
  schema: SchemaProps,
  place: string,
  facts: SchemaFacts,
  { allowsUnknownInDefaults }: Leniency,
  found: Findings,
): Generator<void> {
  const before = found.total
  const patterns = new Patterns()
  for (const { source, place: at } of checkStructural(schema, place, found)) {
    patterns.check(source, at, found)
    yield
  }
  if (found.total === before)
    yield* new Defaults(patterns, facts, allowsUnknownInDefaults, found).check(schema, place)
}

/** As in Kubernetes, the first keyword that is not allowed, in the order of the Go type, is the only violation. */
function checkRoot(schema: SchemaProps, place: string, found: Findings): void {
  const given = new Set(Object.keys(schema))
  const isAllowed = (keyword: string) =>
    keyword === 'type' ? schema.type === 'object' : besideStatus.has(keyword)
  const keyword = [...schemaShape.struct.keys()].find(each => given.has(each) && !isAllowed(each))
  if (keyword === 'type')
    found.invalid(`${place}.type`, 'must be object if the subresource status is enabled')
  else if (keyword !== undefined)
    found.invalid(place, `must not have ${keyword} at the root if the subresource status is enabled`)
}
