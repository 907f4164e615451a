import { isRecord, type Model } from '@setpoint/controller-runtime/api'
import type { ObjectRules } from './object-rules.ts'

type RuleModule = typeof import('./schema-rules.ts')

let loaded: RuleModule | undefined

/**
 * Loads what the rules of the models need, before their schemas are compiled. Returns undefined if there is nothing to
 * load.
 */
export function loadRules(
  models: Iterable<Pick<Model, 'schema'> & Partial<Pick<Model, 'versions'>>>,
): Promise<void> | undefined {
  if (loaded !== undefined) return undefined
  for (const model of models) {
    for (const { schema } of [model, ...(model.versions ?? [])])
      if (hasRules(schema?.spec) || hasRules(schema?.status)) return load()
  }
  return undefined
}

async function load(): Promise<void> {
  loaded = await import('./schema-rules.ts')
}

/** Returns undefined if the schemas have no rules. @throws SchemaError if a rule does not compile */
export function compileRules(
  schemas: { spec: unknown; status: unknown },
  isSensitive = false,
): ObjectRules | undefined {
  if (!hasRules(schemas.spec) && !hasRules(schemas.status)) return undefined
  if (loaded === undefined) throw new Error('the rules of a schema were compiled before loadRules')
  return loaded.compileObjectRules(schemas, isSensitive)
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
