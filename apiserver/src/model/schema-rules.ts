/**
 * The rules of `x-kubernetes-validations`, as in Kubernetes. This module loads a CEL parser and a regular expression
 * engine, so it is imported only for kinds that have rules (`rule-loader.ts`).
 */

import { isRecord } from '@setpoint/controller-runtime/api'
import {
  Budget,
  BudgetExceededError,
  CelCompileError,
  CelEvaluationError,
  type CelType,
  type CelValue,
  celLimits,
  compileCel,
  isCompatible,
  nameOf,
  Optional,
  type Program,
} from './cel/index.ts'
import { CelSchema, type ConvertedValues } from './cel-schema.ts'
import { type FieldPath, formatPath } from './field-path.ts'
import type { JsonObject } from './json-value.ts'
import type { ObjectRules, RuleViolations, SchemaSubject } from './object-rules.ts'
import { type RuleSpec, readRules } from './rule-spec.ts'
import { canonical } from './schema-compiler.ts'
import { SchemaError } from './schema-error.ts'
import { keysOf } from './schema-extensions.ts'
import type { Violation } from './violation.ts'

interface Rule extends RuleSpec {
  readonly program: Program
  readonly message: Program | undefined
  readonly usesOldSelf: boolean
}

/** The rules of a schema and of its parts. Parts without rules are left out. */
interface RuleNode {
  readonly schema: JsonObject
  readonly rules: readonly Rule[]
  readonly properties: ReadonlyMap<string, RuleNode>
  /** For the values of additional fields. */
  readonly values: RuleNode | undefined
  readonly items: RuleNode | undefined
}

/**
 * @param isSensitive true for a kind with secrets: `messageExpression` and the reasons of failed evaluations, which can
 *   contain values, are not in the messages
 * @param root the schema of the whole object, if it has rules or is evaluated as a whole
 * @throws SchemaError that names the rule, and the place in it, that does not compile
 */
export function compileObjectRules(schema: JsonObject, isSensitive = false, root?: JsonObject): ObjectRules {
  const types = new CelSchema()
  const whole = root && compileNode(types, { ...root, properties: schema, [embedded]: true }, 'schema')
  const parts = Object.entries(root === undefined ? schema : {}).flatMap(([part, described]) => {
    const node = compileNode(types, described, `schema.${part}`)
    return node === undefined ? [] : [{ part, node }]
  })
  const evaluate = (
    object: Readonly<SchemaSubject>,
    previous: Readonly<SchemaSubject> | undefined,
    steps: number,
  ) => {
    const evaluation = new Evaluation(types, steps, isSensitive)
    try {
      if (whole !== undefined) evaluation.visit(whole, object, previous, [])
      for (const { part, node } of parts) evaluation.visit(node, object[part], previous?.[part], [part])
    } catch (error) {
      if (!(error instanceof BudgetExceededError)) throw error
      return { found: evaluation.found, isComplete: false }
    }
    return { found: evaluation.found, isComplete: true }
  }
  return {
    validate(object, previous) {
      const { found, isComplete } = evaluate(object, previous, celLimits.steps)
      if (!isComplete) found.state.push(tooExpensive)
      return found
    },
    validateState(object, steps) {
      const { found, isComplete } = evaluate(object, undefined, steps)
      return { state: found.state, isComplete }
    },
  }
}

const embedded = 'x-kubernetes-embedded-resource'

/** Its place is the whole object, so it is excused only if nothing changes. */
const tooExpensive: Violation = Object.freeze({
  field: '',
  path: [],
  reason: 'FieldValueInvalid',
  message: `the validation rules take more than ${celLimits.steps} steps on this object; it must be smaller`,
})

/** @param uncorrelated the place of the list around it whose items have no old values, as they have no keys */
function compileNode(
  types: CelSchema,
  schema: unknown,
  place: string,
  uncorrelated?: string,
): RuleNode | undefined {
  if (!isRecord(schema)) return undefined
  const type = types.typeOf(schema)
  const rules = readRules(schema, place).map((spec, index) =>
    compileRule(spec, type, `${place}.x-kubernetes-validations[${index}]`, uncorrelated),
  )
  const isMap = schema['x-kubernetes-list-type'] === 'map'
  const declared = isRecord(schema.properties) ? schema.properties : {}
  const properties = Object.entries(declared).flatMap(([name, property]): [string, RuleNode][] => {
    const node = compileNode(types, property, `${place}.properties.${name}`, uncorrelated)
    return node === undefined ? [] : [[name, node]]
  })
  const { additionalProperties, items } = schema
  const node: RuleNode = {
    schema,
    rules,
    properties: new Map(properties),
    values: compileNode(types, additionalProperties, `${place}.additionalProperties`, uncorrelated),
    items: compileNode(types, items, `${place}.items`, uncorrelated ?? (isMap ? undefined : place)),
  }
  const isEmpty = rules.length + properties.length === 0 && !node.values && !node.items
  return isEmpty ? undefined : node
}

function compileRule(spec: RuleSpec, type: CelType, place: string, uncorrelated: string | undefined): Rule {
  const oldType: CelType = spec.optionalOldSelf ? { kind: 'optional', value: type } : type
  const variables = new Map([
    ['self', type],
    ['oldSelf', oldType],
  ])
  const program = compileExpression(spec.rule, variables, `${place}.rule`, { kind: 'bool' })
  const usesOldSelf = program.uses.has('oldSelf')
  if (usesOldSelf && uncorrelated !== undefined) {
    throw new SchemaError(
      `${place}.rule: oldSelf cannot be used on the uncorrelatable portion of the schema within ${uncorrelated}; only the items of a list of type map have old values`,
    )
  }
  if (spec.optionalOldSelf && !usesOldSelf)
    throw new SchemaError(`${place}.optionalOldSelf needs a rule that uses oldSelf`)
  const message =
    spec.messageExpression === undefined
      ? undefined
      : compileExpression(spec.messageExpression, variables, `${place}.messageExpression`, { kind: 'string' })
  return { ...spec, program, message, usesOldSelf }
}

function compileExpression(
  text: string,
  variables: ReadonlyMap<string, CelType>,
  place: string,
  wanted: CelType,
): Program {
  try {
    const program = compileCel(text, variables)
    if (!isCompatible(program.type, wanted))
      throw new CelCompileError(`it must be a ${nameOf(wanted)}, is of type ${nameOf(program.type)}`)
    return program
  } catch (error) {
    if (!(error instanceof CelCompileError)) throw error
    throw new SchemaError(`${place} does not compile: ${error.message}, in ${JSON.stringify(text)}`, {
      cause: error,
    })
  }
}

/** Evaluates the rules of one object and collects the violations. */
class Evaluation {
  readonly found: RuleViolations = { state: [], transitions: [] }
  readonly #budget: Budget
  readonly #types: CelSchema
  readonly #isSensitive: boolean
  readonly #values: ConvertedValues = new Map()

  constructor(types: CelSchema, steps: number, isSensitive: boolean) {
    this.#types = types
    this.#isSensitive = isSensitive
    this.#budget = new Budget(steps)
  }

  /** As in Kubernetes, null has no rules: a rule of the parent can refuse it. */
  visit(node: RuleNode, value: unknown, old: unknown, path: FieldPath): void {
    if (value === undefined || value === null) return
    for (const rule of node.rules) this.#check(rule, node.schema, value, old ?? undefined, path)
    if (Array.isArray(value)) {
      if (node.items === undefined) return
      const previous = oldItems(node.schema, old)
      for (const [index, item] of value.entries()) {
        this.#budget.spend(1)
        this.visit(node.items, item, previous(item), [...path, index])
      }
    } else if (isRecord(value)) {
      const oldFields = isRecord(old) ? old : {}
      const declared = node.schema.properties
      for (const [name, item] of Object.entries(value)) {
        const part =
          isRecord(declared) && Object.hasOwn(declared, name) ? node.properties.get(name) : node.values
        if (part === undefined) continue
        this.#budget.spend(1)
        this.visit(part, item, Object.hasOwn(oldFields, name) ? oldFields[name] : undefined, [...path, name])
      }
    }
  }

  #check(rule: Rule, schema: JsonObject, value: unknown, old: unknown, path: FieldPath): void {
    if (rule.usesOldSelf && old === undefined && !rule.optionalOldSelf) return
    const oldValue =
      old === undefined || !rule.usesOldSelf ? undefined : this.#types.valueOf(schema, old, this.#values)
    const variables = {
      self: this.#types.valueOf(schema, value, this.#values),
      oldSelf: rule.optionalOldSelf ? new Optional(oldValue) : oldValue,
    }
    const failure = this.#failureOf(rule, variables)
    if (failure === undefined) return
    const violation: Violation = failure.hasValue
      ? {
          field: formatPath([...path, ...rule.fieldPath]),
          path,
          reason: rule.reason,
          message: failure.message,
        }
      : { field: formatPath(path), path, reason: 'FieldValueInvalid', message: failure.message }
    if (rule.usesOldSelf) this.found.transitions.push(violation)
    else this.found.state.push(violation)
  }

  /**
   * Returns the message if the value breaks the rule. As in Kubernetes, a rule without a value has no path and reason
   * of its own.
   */
  #failureOf(
    rule: Rule,
    variables: Readonly<Record<string, CelValue | undefined>>,
  ): { readonly message: string; readonly hasValue: boolean } | undefined {
    const standing = rule.text ?? `failed rule: ${rule.rule}`
    try {
      const result = rule.program.evaluate(variables, this.#budget)
      if (result === true) return undefined
      if (result !== false) throw new CelEvaluationError('the rule is not a bool')
    } catch (error) {
      if (!(error instanceof CelEvaluationError)) throw error
      const why = this.#isSensitive ? '' : `: ${error.message}`
      return { message: `${standing} (the rule cannot be evaluated${why})`, hasValue: false }
    }
    const text = this.#isSensitive ? undefined : this.#messageOf(rule.message, variables)
    return { message: text ?? standing, hasValue: true }
  }

  /**
   * As in Kubernetes, a message that cannot be evaluated, say because it uses `oldSelf` and its rule does not, is left
   * out.
   */
  #messageOf(
    program: Program | undefined,
    variables: Readonly<Record<string, CelValue | undefined>>,
  ): string | undefined {
    if (program === undefined) return undefined
    try {
      const text = program.evaluate(variables, this.#budget)
      const isUsable = typeof text === 'string' && text.trim() !== '' && !/[\r\n]/.test(text)
      return isUsable && text.length <= celLimits.expressionLength ? text.trim() : undefined
    } catch (error) {
      if (!(error instanceof CelEvaluationError)) throw error
      return undefined
    }
  }
}

/** Returns a function that finds the old item of the same keys in a list of type map. */
function oldItems(schema: JsonObject, old: unknown): (item: unknown) => unknown {
  if (schema['x-kubernetes-list-type'] !== 'map' || !Array.isArray(old)) return () => undefined
  const keys = keysOf(schema)
  const identity = (item: unknown) =>
    isRecord(item) ? canonical(keys.map(key => item[key] ?? null)) : undefined
  const byKeys = new Map(old.map((item: unknown) => [identity(item), item]))
  return item => {
    const key = identity(item)
    return key === undefined ? undefined : byKeys.get(key)
  }
}
