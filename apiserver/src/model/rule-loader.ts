import { type ContentSchema, isRecord, type Model } from '@setpoint/controller-runtime/api'
import type { JsonObject } from './json-value.ts'
import type { ObjectRules } from './object-rules.ts'

type RuleModule = typeof import('./schema-rules.ts')

let loaded: RuleModule | undefined

/**
 * Loads what the rules of the models need, before their schemas are compiled. Returns undefined if there is nothing to
 * load.
 */
export function loadRules(
  models: Iterable<Pick<Model, 'schema'> & Partial<Pick<Model, 'versions'>>>,
  roots: Iterable<JsonObject> = [],
): Promise<void> | undefined {
  if (loaded !== undefined) return undefined
  for (const root of roots) if (hasRules(root)) return load()
  for (const model of models) {
    for (const { schema } of [model, ...(model.versions ?? [])])
      if (Object.values(schema ?? {}).some(hasRules)) return load()
  }
  return undefined
}

async function load(): Promise<void> {
  loaded = await import('./schema-rules.ts')
}

/**
 * Returns undefined if the schemas have no rules.
 * @param root the schema of the whole object, which may have rules too
 * @throws SchemaError if a rule does not compile
 */
export function compileRules(
  schema: ContentSchema,
  isSensitive = false,
  root?: JsonObject,
): ObjectRules | undefined {
  if (!Object.values(schema).some(hasRules) && root?.['x-kubernetes-validations'] === undefined)
    return undefined
  if (loaded === undefined) throw new Error('the rules of a schema were compiled before loadRules')
  return loaded.compileObjectRules(schema, isSensitive, root)
}

/** Rules inside allOf, anyOf, oneOf and not are refused elsewhere. */
function hasRules(schema: unknown): boolean {
  if (!isRecord(schema)) return false
  const { properties, items, additionalProperties } = schema
  return (
    schema['x-kubernetes-validations'] !== undefined ||
    hasRules(items) ||
    hasRules(additionalProperties) ||
    (isRecord(properties) && Object.values(properties).some(hasRules))
  )
}
