import { ModelError, type Schema } from '@setpoint/controller-runtime/api'
import type { ValidateFunction } from 'ajv'
import { type FieldPath, formatPath } from './field-path.ts'
import { cloneJson, type JsonObject } from './json-value.ts'
import { collectErrors, createCompiler } from './schema-compiler.ts'
import { fillDefaults, schemasWithDefault } from './schema-defaults.ts'
import { SchemaError, toJsonSchema } from './schema-dialect.ts'
import { findUnknownFields } from './unknown-fields.ts'
import { tooManyViolations, type Violation, violationsOf } from './violation.ts'

export { remainingViolations, type Violation, type ViolationReason } from './violation.ts'

export const schemaDefaults = Object.freeze({
  /** Unknown fields of one object that are named: they go into headers and messages. */
  maxUnknownFields: 100,
})

/** Shared by all models: making them takes as long as compiling twenty. */
const collecting = createCompiler({ collect: true })
const deciding = createCompiler({ collect: false })

/** The part of an object that a model's schema is about. */
export interface SchemaSubject {
  spec?: unknown
  status?: unknown
}

/** A model's schema, compiled. */
export interface SchemaValidator {
  /** Whether `applyDefaults` can change anything. */
  readonly hasDefaults: boolean
  /**
   * Everything in which `object` breaks the schema; about the first thousand, and one on the whole object to say so,
   * where there is more. A spec is required, a status is not.
   */
  validate(object: Readonly<SchemaSubject>): Violation[]
  /** Fills in the schema's defaults, in place: the object must be the caller's own. */
  applyDefaults(object: SchemaSubject): void
  /** Paths of fields that the schema does not know, as `findUnknownFields` has it; at most `maxUnknownFields`. */
  unknownFields(object: Readonly<SchemaSubject>): string[]
}

/**
 * Compiles what a model declares: OpenAPI 3.0 schemas, unknown formats and `x-*` ignored.
 *
 * Caveat: the patterns are the plugin author's code. One that backtracks without end blocks the server.
 *
 * @throws ModelError naming the part of the schema that cannot be compiled, or a default that breaks its own schema.
 */
export function compileSchemas(schema: { spec: Schema; status?: Schema }): SchemaValidator {
  const { spec, status = { type: 'object' } } = schema
  const root = { properties: { spec, status } }
  const draft7 = {
    required: ['spec'],
    properties: { spec: toDraft7(spec, 'schema.spec'), status: toDraft7(status, 'schema.status') },
  }
  const check = compile(draft7)
  // Needed for the rare object with more errors than are collected; so it is compiled when one comes.
  let decide: ValidateFunction | undefined
  const defaulted = [
    ...schemasWithDefault(spec, 'schema.spec'),
    ...schemasWithDefault(status, 'schema.status'),
  ]
  for (const [place, part] of defaulted) checkDefault(place, part)
  return {
    hasDefaults: defaulted.length > 0,
    validate(object) {
      const subject = { spec: object.spec, status: object.status }
      const { errors, complete } = collectErrors(check, subject)
      if (complete) return violationsOf(errors, subject)
      decide ??= deciding.compile(draft7)
      return decide(subject) ? [] : [...violationsOf(errors, subject), tooManyViolations]
    },
    applyDefaults(object) {
      if (defaulted.length > 0) fillDefaults(root, object)
    },
    unknownFields({ spec, status }) {
      const limit = schemaDefaults.maxUnknownFields
      const found = findUnknownFields(root.properties.spec, spec, ['spec'], limit)
      return [
        ...found,
        ...findUnknownFields(root.properties.status, status, ['status'], limit - found.length),
      ]
    },
  }
}

function compile(schema: JsonObject): ValidateFunction {
  if (deciding.validateSchema(schema) !== true) {
    const problems = violationsOf(deciding.errors ?? [], schema).map(
      ({ path, message }) => `${placeOf(path)} ${message}`,
    )
    throw new ModelError(`the schema is not valid: ${problems.join('; ')}`)
  }
  try {
    return collecting.compile(schema)
  } catch (error) {
    throw new ModelError(`the schema does not compile: ${error instanceof Error ? error.message : error}`, {
      cause: error,
    })
  }
}

/** A place in the compiled schema as the author wrote it: the first step stands for the root around the parts. */
function placeOf([, ...path]: FieldPath): string {
  return `schema.${formatPath(path)}`
}

/** @throws ModelError for what the dialect does not have. */
function toDraft7(schema: unknown, place: string): JsonObject {
  try {
    return toJsonSchema(schema, place)
  } catch (error) {
    if (error instanceof SchemaError) throw new ModelError(error.message, { cause: error })
    throw error
  }
}

/** A default that its own schema refuses would make every object without the field invalid. */
function checkDefault(place: string, schema: JsonObject): void {
  const value = cloneJson(schema.default)
  fillDefaults(schema, value)
  const check = compile({ properties: { default: toDraft7(schema, place) } })
  const subject = { default: value }
  if (check(subject)) return
  const [violation] = violationsOf(check.errors ?? [], subject)
  throw new ModelError(
    `the default in ${place} breaks its own schema: ${violation?.field} ${violation?.message}`,
  )
}
