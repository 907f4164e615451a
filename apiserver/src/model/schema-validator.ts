import { type ContentSchema, ModelError } from '@setpoint/controller-runtime/api'
import type { Ajv, ValidateFunction } from 'ajv'
import { changedViolations } from './changed-violations.ts'
import { formatPath } from './field-path.ts'
import { cloneJson, type JsonObject } from './json-value.ts'
import { withKubernetesFormats } from './kubernetes-schema.ts'
import type { ObjectRules, SchemaSubject } from './object-rules.ts'
import { Pattern } from './pattern.ts'
import { compileRules } from './rule-loader.ts'
import { collectErrors, createCompiler, PatternStepsError, runCheck } from './schema-compiler.ts'
import { fillDefaults, schemasWithDefault } from './schema-defaults.ts'
import { toJsonSchema } from './schema-dialect.ts'
import { SchemaError } from './schema-error.ts'
import { findUnknownFields, prunedFields, withoutFields, withoutUnknownFields } from './unknown-fields.ts'
import {
  showType,
  tooComplex,
  tooManySteps,
  tooManyViolations,
  type Violation,
  violationsAsKubernetes,
  violationsOf,
} from './violation.ts'

export type { SchemaSubject } from './object-rules.ts'
export { remainingViolations, type Violation } from './violation.ts'

export const schemaDefaults = Object.freeze({
  /** Unknown fields reported for one object, in headers and messages. */
  maxUnknownFields: 100,
})
/** Checks objects against a model's schema. */
export interface SchemaValidator {
  /** Returns true if a field beside apiVersion, kind and metadata is declared, or `unknownFields` decides about it. */
  knows(field: string): boolean
  /** The rules of `x-kubernetes-validations`; undefined without any. */
  readonly rules: ObjectRules | undefined
  /**
   * Returns those violations that a change brings about, if Kubernetes decides: it excuses those of values that stay as
   * they are. Undefined for other kinds.
   */
  readonly remaining: RemainingViolations | undefined
  /**
   * Returns the violations of the schema. Past a thousand, the last one is `tooManyViolations`. A declared spec is
   * required, other fields are not.
   */
  validate(object: Readonly<SchemaSubject>): Violation[]
  /** Fills in the schema's defaults, in place. Returns true if there was one to fill in. */
  applyDefaults(object: SchemaSubject): boolean
  /** Returns an object with the schema's defaults. Copies the declared fields if the schema has defaults. */
  withDefaults<T extends SchemaSubject>(object: T): T
  /**
   * Returns the paths of unknown fields within the declared ones, at most `maxUnknownFields`. See `findUnknownFields`.
   */
  unknownFields(object: Readonly<SchemaSubject>): string[]
  /** False if `prune` changes nothing. */
  readonly prunes: boolean
  /** Returns an object without its unknown fields, if the model prunes them. Copies what it changes. */
  prune<T extends SchemaSubject>(object: T): T
}

/** See `SchemaValidator.remaining`. */
type RemainingViolations = (
  violations: readonly Violation[],
  next: Readonly<SchemaSubject>,
  previous: Readonly<SchemaSubject>,
) => Violation[]

export interface SchemaOptions {
  /** True for a kind with secrets: violations do not repeat the values of objects. */
  readonly isSensitive?: boolean
  /** True if unknown fields are removed. */
  readonly prunes?: boolean
  /** The schema of the whole object, if it says more than the schemas of its fields, as that of a definition may. */
  readonly root?: JsonObject | undefined
}

/**
 * Returns the validator of a model's OpenAPI 3.0 schemas. Unknown formats and `x-*` are ignored, except for
 * Kubernetes'. `loadRules` must be called before for schemas with rules. Compiles the schemas at the first object,
 * because many kinds of a server are never written.
 *
 * @throws ModelError if the schema leaves the dialect, a rule does not compile, or a default breaks its schema or rules
 */
export function compileSchemas(
  schema: ContentSchema,
  { isSensitive = false, prunes = false, root: whole }: SchemaOptions = {},
): SchemaValidator {
  const root = { ...whole, properties: schema }
  const fields = Object.keys(schema)
  const draft7 = whole === undefined ? draft7Of(schema) : toDraft7(withKubernetesFormats(whole), 'schema')
  // The unknown fields of a whole object are found together.
  const knows = (field: string) => whole !== undefined || Object.hasOwn(schema, field)
  let check: ValidateFunction | undefined
  // Trying to compile it again takes seconds.
  let isTooComplex = false
  // Compiled at the first violation.
  let collect: ValidateFunction | undefined
  const defaulted = Object.entries(schema).flatMap(([field, part]) => [
    ...schemasWithDefault(part, `schema.${field}`),
  ])
  const rules = withModelErrors(() => compileRules(schema, isSensitive, whole))
  // Those of a definition were checked when it was stored.
  if (defaulted.length > 0 && whole === undefined) {
    const compiler = createCompiler('first')
    for (const [place, part] of defaulted) checkDefault(compiler, place, part)
  }
  return {
    knows,
    remaining:
      whole && ((violations, next, previous) => changedViolations(whole, violations, next, previous)),
    rules,
    validate(object) {
      if (isTooComplex) return [tooComplex]
      // A compiler keeps all that it has compiled, so each kind has its own, and both go together.
      try {
        check ??= compileCheck(draft7)
      } catch (error) {
        if (!(error instanceof RangeError)) throw error
        isTooComplex = true
        return [tooComplex]
      }
      try {
        if (runCheck(check, object)) return []
        collect ??= createCompiler('some').compile(draft7)
        const { errors, complete } = collectErrors(collect, object)
        const violations =
          whole === undefined
            ? violationsOf(errors, object, isSensitive ? showType : undefined)
            : violationsAsKubernetes(errors, object)
        return complete ? violations : [...violations, tooManyViolations]
      } catch (error) {
        if (!(error instanceof PatternStepsError)) throw error
        return [tooManySteps(error, object)]
      }
    },
    applyDefaults(object) {
      return defaulted.length > 0 && fillDefaults(root, object)
    },
    withDefaults(object) {
      if (defaulted.length === 0) return object
      const given = fields.filter(field => object[field] !== undefined)
      const copies = given.map(field => [field, cloneJson(object[field])])
      const completed = { ...object, ...Object.fromEntries(copies) }
      fillDefaults(root, completed)
      return completed
    },
    unknownFields(object) {
      if (whole !== undefined)
        return prunedFields(root, object, schemaDefaults.maxUnknownFields).map(formatPath)
      const found: string[] = []
      for (const field of fields)
        found.push(
          ...findUnknownFields(
            schema[field],
            object[field],
            [field],
            schemaDefaults.maxUnknownFields - found.length,
          ),
        )
      return found
    },
    prunes,
    prune(object) {
      if (!prunes) return object
      return whole === undefined
        ? withoutUnknownFields(schema, object)
        : withoutFields(object, prunedFields(root, object, Number.POSITIVE_INFINITY))
    },
  }
}

/** Schemas in a schema whose validator need not stop at the first error. */
const manySchemas = 500

/**
 * Returns a check. What stops at the first error is nested after each field, which V8 reads slowly, and from about
 * 1,500 levels on not at all.
 * @throws RangeError for a schema that V8 cannot read either way
 */
function compileCheck(draft7: JsonObject): ValidateFunction {
  return createCompiler(countObjects(draft7) > manySchemas ? 'all' : 'first').compile(draft7)
}

function countObjects(value: unknown): number {
  if (typeof value !== 'object' || value === null || value instanceof Pattern) return 0
  let count = 1
  for (const part of Object.values(value)) count += countObjects(part)
  return count
}

/** Returns the JSON Schema of objects that are described field by field. */
function draft7Of(schema: ContentSchema): JsonObject {
  const properties = Object.entries(schema).map(([field, part]) => [field, toDraft7(part, `schema.${field}`)])
  return {
    required: schema.spec === undefined ? [] : ['spec'],
    properties: Object.fromEntries(properties),
  }
}

/**
 * Returns the validator of schemas that are known to be valid: those of the server's own kinds, which do not prune.
 * Reads them when an object is first read or written, because a server starts with many kinds and uses few.
 */
export function compileSchemasWhenUsed(schema: ContentSchema, options?: SchemaOptions): SchemaValidator {
  let compiled: SchemaValidator | undefined
  const validator = () => {
    compiled ??= compileSchemas(schema, options)
    return compiled
  }
  return {
    knows: field => Object.hasOwn(schema, field),
    remaining: undefined,
    get rules() {
      return validator().rules
    },
    validate: object => validator().validate(object),
    applyDefaults: object => validator().applyDefaults(object),
    withDefaults: object => validator().withDefaults(object),
    unknownFields: object => validator().unknownFields(object),
    prunes: false,
    prune: object => object,
  }
}

/** @throws ModelError if the schema is outside the dialect */
function toDraft7(schema: unknown, place: string): JsonObject {
  return withModelErrors(() => toJsonSchema(schema, place))
}

function withModelErrors<T>(compilePart: () => T): T {
  try {
    return compilePart()
  } catch (error) {
    if (error instanceof SchemaError) throw new ModelError(error.message, { cause: error })
    throw error
  }
}

/**
 * Rejects a default that breaks its own schema or the rules in it, or has unknown fields, as in Kubernetes: every
 * object without the field would be invalid. Rules that use `oldSelf` are left out, because a default is not a change.
 */
function checkDefault(compiler: Ajv, place: string, schema: JsonObject): void {
  const fail = (problem: string): never => {
    throw new ModelError(`the default in ${place} ${problem}`)
  }
  const value = cloneJson(schema.default)
  fillDefaults(schema, value)
  const subject = { default: value }
  const check = compiler.compile({ properties: { default: toDraft7(schema, place) } })
  if (!runCheck(check, subject)) {
    const [violation] = violationsOf(check.errors ?? [], subject)
    fail(`breaks its own schema: ${violation?.field} ${violation?.message}`)
  }
  const [unknown] = findUnknownFields(schema, value, ['default'], 1)
  if (unknown !== undefined) fail(`has a field that its schema does not declare: ${unknown}`)
  const [broken] = compileRules({ spec: schema })?.validate({ spec: value }, undefined).state ?? []
  if (broken !== undefined)
    fail(`breaks a rule: ${broken.field.replace('spec', 'default')}: ${broken.message}`)
}
