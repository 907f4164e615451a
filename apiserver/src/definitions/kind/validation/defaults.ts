import { isRecord } from '@setpoint/controller-runtime/api'
import type { JsonObject, Violation } from '../../../model/index.ts'
import { SchemaError } from '../../../model/schema-error.ts'
import { compileObjectRules } from '../../../model/schema-rules.ts'
import { checkResources } from './embedded-resources.ts'
import { Findings } from './findings.ts'
import type { Patterns } from './patterns.ts'
import { hasUnknownFields } from './pruned-defaults.ts'
import { itemsOf, propertiesOf, type SchemaProps, someSchema } from './schema-props.ts'
import { SchemaValue } from './schema-value.ts'

/** Where the walk is. */
interface Spot {
  readonly place: string
  /** The schema of the resource around: the root, or an embedded one. */
  readonly resource: SchemaProps
  /** The steps from the resource. */
  readonly steps: readonly (string | number)[]
  readonly isInMetadata: boolean
}

const metadataFields: ReadonlySet<string> = new Set(['metadata', 'apiVersion', 'kind'])

/** Checks that the defaults of a structural schema are valid by it, and that pruning leaves them as they are. */
export class Defaults {
  readonly #patterns: Patterns
  readonly #allowsUnknown: boolean
  readonly #found: Findings

  /** @param allowsUnknown true if unknown fields are not reported */
  constructor(patterns: Patterns, allowsUnknown: boolean, found: Findings) {
    this.#patterns = patterns
    this.#allowsUnknown = allowsUnknown
    this.#found = found
  }

  /** @param root the schema of whole objects */
  check(root: SchemaProps, place: string): void {
    this.#visit(root, { place, resource: root, steps: [], isInMetadata: false })
  }

  /** Does not look into additional properties: as in Kubernetes, their defaults are never checked. */
  #visit(schema: SchemaProps, outer: Spot): void {
    const isResource = schema === outer.resource || schema['x-kubernetes-embedded-resource'] === true
    const spot = isResource ? { ...outer, resource: schema, steps: [], isInMetadata: false } : outer
    if (schema.default !== undefined && schema.default !== null) this.#checkDefault(schema, isResource, spot)
    const { place, steps } = spot
    const items = itemsOf(schema)
    if (items !== undefined) this.#visit(items, { ...spot, place: `${place}.items`, steps: [...steps, 0] })
    for (const [name, property] of propertiesOf(schema))
      this.#visit(property, {
        ...spot,
        place: `${place}.properties[${name}]`,
        steps: [...steps, name],
        isInMetadata: spot.isInMetadata || (isResource && metadataFields.has(name)),
      })
  }

  #checkDefault(schema: SchemaProps, isResource: boolean, spot: Spot): void {
    const found = this.#found
    const place = `${spot.place}.default`
    const value = schema.default
    if (spot.isInMetadata) {
      const around = new Findings()
      checkResources(spot.resource, resourceAround(spot.steps, value), '', true, around)
      if (!around.isEmpty) {
        const [first] = around.violations
        found.invalid(place, `must result in valid metadata: ${first?.field.slice(1)} ${first?.message}`)
        return
      }
    } else {
      if (!this.#allowsUnknown && hasUnknownFields(schema, value, isResource))
        found.invalid(place, 'must not have unknown fields')
      const before = found.total
      checkResources(schema, value, place, isResource, found)
      if (found.total > before) return
    }
    const before = found.total
    new SchemaValue(this.#patterns, place).check(schema, value, place, found)
    if (found.total === before) this.#checkRules(schema, isResource, value, place)
  }

  /** Checks the rules as for an object that keeps the value, and as for a new one. */
  #checkRules(schema: SchemaProps, isResource: boolean, value: unknown, place: string): void {
    if (!someSchema(schema, each => each['x-kubernetes-validations'] !== undefined)) return
    const found = this.#found
    const root = isResource ? { ...schema, 'x-kubernetes-embedded-resource': true } : schema
    for (const previous of [{ default: value }, undefined]) {
      const before = found.total
      for (const { field, message, reason } of violationsOf(root, value, previous))
        found.add(reason, place + field.slice('default'.length), message)
      if (found.total > before) return
    }
  }
}

/** Returns the resource that has a value at the steps. */
function resourceAround(steps: readonly (string | number)[], value: unknown): JsonObject {
  const around = steps.reduceRight<unknown>(
    (inner, step) => (typeof step === 'number' ? [inner] : { [step]: inner }),
    value,
  )
  return { apiVersion: 'validation/v1', kind: 'Validation', ...(isRecord(around) && around) }
}

function violationsOf(
  schema: SchemaProps,
  value: unknown,
  previous: { readonly default: unknown } | undefined,
): readonly Pick<Violation, 'field' | 'reason' | 'message'>[] {
  try {
    const { state, transitions } = compileObjectRules({ default: schema }).validate(
      { default: value },
      previous,
    )
    return [...state, ...transitions]
  } catch (error) {
    if (!(error instanceof SchemaError)) throw error
    return [{ field: 'default', reason: 'FieldValueInvalid', message: error.message }]
  }
}
