import { isRecord } from '@setpoint/controller-runtime/api'
import { CelCompileError } from '../../../model/cel/index.ts'
import type { JsonObject } from '../../../model/index.ts'
import { SchemaError } from '../../../model/schema-error.ts'
import { compileObjectRules } from '../../../model/schema-rules.ts'
import { Findings } from '../../findings.ts'
import { CheckWork, TooManySteps } from './check-work.ts'
import { checkResources } from './embedded-resources.ts'
import type { Patterns } from './patterns.ts'
import { hasUnknownFields } from './pruned-defaults.ts'
import type { SchemaFacts } from './schema-facts.ts'
import { itemsOf, propertiesOf, type SchemaProps } from './schema-props.ts'
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

interface PlacedDefault {
  readonly schema: SchemaProps
  readonly isResource: boolean
  readonly spot: Spot
}

/** Checks that the defaults of a structural schema are valid by it, and that pruning leaves them as they are. */
export class Defaults {
  readonly #patterns: Patterns
  readonly #facts: SchemaFacts
  readonly #allowsUnknown: boolean
  readonly #found: Findings
  readonly #placed: PlacedDefault[] = []
  readonly #work = new CheckWork()

  /** @param allowsUnknown true if unknown fields are not reported */
  constructor(patterns: Patterns, facts: SchemaFacts, allowsUnknown: boolean, found: Findings) {
    this.#patterns = patterns
    this.#facts = facts
    this.#allowsUnknown = allowsUnknown
    this.#found = found
  }

  /**
   * Checks one default in each step.
   * @param root the schema of whole objects
   */
  *check(root: SchemaProps, place: string): Generator<void> {
    this.#collect(root, { place, resource: root, steps: [], isInMetadata: false })
    for (const { schema, isResource, spot } of this.#placed) {
      this.#checkDefault(schema, isResource, spot)
      yield
    }
  }

  /** Does not look into additional properties: as in Kubernetes, their defaults are never checked. */
  #collect(schema: SchemaProps, outer: Spot): void {
    if (!this.#facts.of(schema).hasDefaults) return
    const isResource = schema === outer.resource || schema['x-kubernetes-embedded-resource'] === true
    const spot = isResource ? { ...outer, resource: schema, steps: [], isInMetadata: false } : outer
    if (schema.default !== undefined && schema.default !== null)
      this.#placed.push({ schema, isResource, spot })
    const { place, steps } = spot
    const items = itemsOf(schema)
    if (items !== undefined) this.#collect(items, { ...spot, place: `${place}.items`, steps: [...steps, 0] })
    for (const [name, property] of propertiesOf(schema))
      this.#collect(property, {
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
    this.#work.begin()
    try {
      new SchemaValue(this.#patterns, this.#work, place).check(schema, value, place, found)
    } catch (error) {
      if (!(error instanceof TooManySteps)) throw error
      found.tooMany(place, 'takes too many steps to check by its schema, with the defaults before it')
    }
    if (found.total === before) this.#checkRules(schema, isResource, value, place)
  }

  /** Checks the rules as for an object that keeps the value, and as for a new one. Leaves out what would take too long. */
  #checkRules(schema: SchemaProps, isResource: boolean, value: unknown, place: string): void {
    const { rules } = this.#facts.of(schema)
    if (rules === 0 || !this.#work.takesRules(rules)) return
    const found = this.#found
    try {
      const whole = isResource ? { ...schema, 'x-kubernetes-embedded-resource': true } : schema
      const compiled = compileObjectRules({ default: whole })
      for (const previous of [{ default: value }, undefined]) {
        const { state, transitions } = compiled.validate({ default: value }, previous)
        for (const { field, message, reason } of [...state, ...transitions])
          found.add(reason, place + field.slice('default'.length), message)
        if (state.length + transitions.length > 0) return
      }
    } catch (error) {
      if (!(error instanceof SchemaError)) throw error
      // As in Kubernetes, all other faults of rules are violations of the rules alone.
      if (error.cause instanceof CelCompileError && !error.message.includes('.messageExpression '))
        found.invalid(place, `cannot be checked: ${error.message.slice('schema.default.'.length)}`)
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
