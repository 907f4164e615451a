import {
  CelCompileError,
  type CelType,
  celName,
  compileCel,
  listOf,
  type Program,
} from '../../../model/cel/index.ts'
import type { Findings } from '../../findings.ts'
import type { PlacedRules } from './openapi-schema.ts'
import { itemsOf, propertiesOf, type RuleProps, type SchemaProps, valuesOf } from './schema-props.ts'

const embedded = 'x-kubernetes-embedded-resource'

const text: CelType = { kind: 'string' }
const metadata: CelType = {
  kind: 'object',
  fields: new Map([
    ['name', text],
    ['generateName', text],
  ]),
}
const resourceFields = Object.entries({ apiVersion: text, kind: text, metadata })

/** Checks the expressions of one definition. */
export class CelRules {
  readonly #types = new Map<SchemaProps, CelType | undefined>()
  readonly #root: SchemaProps

  /** @param root the schema of whole objects, which have a kind and metadata */
  constructor(root: SchemaProps) {
    this.#root = root
  }

  /** Compiles the rules of a schema, one in each step. */
  *check({ schema, place, uncorrelated }: PlacedRules, found: Findings): Generator<void> {
    const { 'x-kubernetes-validations': rules = [] } = schema
    const at = `${place}.x-kubernetes-validations`
    const type = this.#typeOf(schema)
    if (type === undefined) {
      found.invalid(at, 'needs a schema in which every value has a type')
      return
    }
    for (const [index, rule] of rules.entries()) {
      checkRule(rule, type, `${at}[${index}]`, uncorrelated, found)
      yield
    }
  }

  /** Returns undefined for a value that expressions cannot read, because its schema has no type. */
  #typeOf(schema: SchemaProps): CelType | undefined {
    if (this.#types.has(schema)) return this.#types.get(schema)
    const type = this.#makeType(schema)
    this.#types.set(schema, type)
    return type
  }

  #makeType(schema: SchemaProps): CelType | undefined {
    if (schema['x-kubernetes-int-or-string']) return { kind: 'dyn' }
    const isResource = schema === this.#root || schema[embedded] === true
    switch (isResource ? 'object' : schema.type) {
      case 'boolean':
        return { kind: 'bool' }
      case 'integer':
        return { kind: 'int' }
      case 'number':
        return { kind: 'double' }
      case 'string':
        return { kind: stringKinds[schema.format ?? ''] ?? 'string' }
      case 'array': {
        const items = itemsOf(schema)
        const item = items && this.#typeOf(items)
        return item && listOf(item)
      }
      case 'object': {
        const values = valuesOf(schema)
        if (values !== undefined) {
          const value = this.#typeOf(values)
          return value && { kind: 'map', value }
        }
        const fields = propertiesOf(schema).flatMap(([name, property]): [string, CelType][] => {
          const [type, readAs] = [this.#typeOf(property), celName(name)]
          return type === undefined || readAs === undefined ? [] : [[readAs, type]]
        })
        return { kind: 'object', fields: new Map([...fields, ...(isResource ? resourceFields : [])]) }
      }
      default:
        return undefined
    }
  }
}

const stringKinds: Readonly<Record<string, 'bytes' | 'timestamp' | 'duration'>> = {
  byte: 'bytes',
  date: 'timestamp',
  'date-time': 'timestamp',
  duration: 'duration',
}

function checkRule(
  { rule, messageExpression = '', optionalOldSelf }: RuleProps,
  type: CelType,
  place: string,
  uncorrelated: string | undefined,
  found: Findings,
): void {
  const variables = new Map([
    ['self', type],
    ['oldSelf', optionalOldSelf === true ? ({ kind: 'optional', value: type } as const) : type],
  ])
  const program = compile(rule, 'bool', variables, `${place}.rule`, found)
  if (program !== undefined && messageExpression !== '')
    compile(messageExpression, 'string', variables, `${place}.messageExpression`, found)
  const usesOldSelf = program?.uses.has('oldSelf') === true
  if (usesOldSelf && uncorrelated !== undefined)
    found.invalid(
      `${place}.rule`,
      `oldSelf cannot be used on the uncorrelatable portion of the schema within ${uncorrelated}: it has no old values`,
    )
  if (!usesOldSelf && optionalOldSelf !== undefined)
    found.invalid(`${place}.optionalOldSelf`, 'must not be set if the rule does not use oldSelf')
}

function compile(
  expression: string,
  wanted: 'bool' | 'string',
  variables: ReadonlyMap<string, CelType>,
  place: string,
  found: Findings,
): Program | undefined {
  try {
    const program = compileCel(expression, variables)
    // Kubernetes refuses a dynamic type, but knows more types: a rule that it accepts must not be refused.
    if (program.type.kind === wanted || program.type.kind === 'dyn') return program
    found.invalid(place, `must evaluate to a ${wanted}, not to a ${program.type.kind}`)
  } catch (error) {
    if (!(error instanceof CelCompileError)) throw error
    found.invalid(place, `does not compile: ${error.message}`)
  }
  return undefined
}
