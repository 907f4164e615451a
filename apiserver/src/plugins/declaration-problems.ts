import type { ContentSchema, Model, Schema } from '@setpoint/controller-runtime/api'
import { leadingFields, nearestName } from '@setpoint/controller-runtime/internal'
import type { ReportedProblem } from './index-report.ts'

/**
 * Returns what is probably a mistake in the declaration of a kind, although the kind can be served: fields that are
 * required, shown or indexed and that the schema does not declare, and properties that accept any value.
 */
export function declarationProblems(model: Model): ReportedProblem[] {
  const { version, schema, printerColumns, versions, indexes } = model
  const problems: string[] = []
  for (const declared of [{ name: version, schema, printerColumns }, ...versions]) {
    const { printerColumns: columns = printerColumns } = declared
    for (const [field, content] of Object.entries(declared.schema))
      problems.push(...problemsOfSchema(content, `schema.${field}`).map(each => `${declared.name}: ${each}`))
    for (const { name, jsonPath } of columns) {
      const undeclared = undeclaredIn(declared.schema, leadingFields(jsonPath))
      if (undeclared !== undefined)
        problems.push(
          `${declared.name}: the printer column "${name}" shows ${jsonPath}, and the schema does not declare "${undeclared.field}"${suggestion(undeclared)}`,
        )
    }
  }
  for (const { name } of indexes) {
    if (!/^(spec|status)\./.test(name)) continue
    // An index of computed values may have any name, so only one that resembles a field is told.
    const undeclared = undeclaredIn(schema, name.split('.'))
    const meant = undeclared && suggestion(undeclared)
    if (meant)
      problems.push(
        `the index "${name}" names "${undeclared.field}", which the schema does not declare${meant}`,
      )
  }
  return problems.map(message => ({ source: `kind ${model.kind}`, message }))
}

function problemsOfSchema(schema: Schema | undefined, path: string): string[] {
  if (schema === undefined) return []
  const { properties = {}, required = [], items, additionalProperties } = schema
  const problems = isTyped(schema) ? [] : [`${path} has no type, so that any value is valid`]
  if (!isOpen(schema)) {
    for (const name of required)
      if (!Object.hasOwn(properties, name))
        problems.push(
          `${path} requires "${name}", which it does not declare${suggestion({ field: name, declared: Object.keys(properties) })}`,
        )
  }
  for (const [name, property] of Object.entries(properties))
    problems.push(...problemsOfSchema(property, `${path}.properties.${name}`))
  problems.push(...problemsOfSchema(items, `${path}.items`))
  if (typeof additionalProperties === 'object')
    problems.push(...problemsOfSchema(additionalProperties, `${path}.additionalProperties`))
  return problems
}

const keywordsInsteadOfType = [
  'type',
  'enum',
  'allOf',
  'anyOf',
  'oneOf',
  'not',
  'x-kubernetes-int-or-string',
  'x-kubernetes-preserve-unknown-fields',
  'x-kubernetes-embedded-resource',
]

function isTyped(schema: Schema): boolean {
  return keywordsInsteadOfType.some(keyword => Object.hasOwn(schema, keyword))
}

/** Returns true for a schema that says that objects have fields which it does not declare, or that declares none. */
function isOpen(schema: Schema): boolean {
  const { properties, additionalProperties = false } = schema
  return (
    properties === undefined ||
    additionalProperties !== false ||
    schema['x-kubernetes-preserve-unknown-fields'] === true ||
    schema['x-kubernetes-embedded-resource'] === true
  )
}

/** A field that a schema does not declare, and those that it declares at the same place. */
interface Undeclared {
  readonly field: string
  readonly declared: readonly string[]
}

/** Returns the first undeclared field of a path from the root of objects, if there is one. */
function undeclaredIn(
  content: ContentSchema,
  [field = '', ...below]: readonly string[],
): Undeclared | undefined {
  if (field === 'metadata' || field === 'apiVersion' || field === 'kind') return undefined
  const schema = new Map(Object.entries(content)).get(field)
  if (schema !== undefined) return undeclaredBelow(schema, below)
  return field === 'status' ? undefined : { field, declared: Object.keys(content) }
}

/** As `undeclaredIn`, below a schema. Items of arrays are passed. */
function undeclaredBelow(schema: Schema, path: readonly string[]): Undeclared | undefined {
  const [field, ...below] = path
  if (field === undefined) return undefined
  const { type, properties = {}, items, additionalProperties, allOf = [], anyOf = [], oneOf = [] } = schema
  const property = Object.hasOwn(properties, field) ? properties[field] : undefined
  if (property !== undefined) return undeclaredBelow(property, below)
  if (items !== undefined) return undeclaredBelow(items, path)
  if (typeof additionalProperties === 'object') return undeclaredBelow(additionalProperties, below)
  const isObject = type === undefined || type === 'object'
  const branches = [...allOf, ...anyOf, ...oneOf].filter(branch => branch.properties !== undefined)
  if (isObject && (isOpen(schema) || branches.some(each => undeclaredBelow(each, path) === undefined)))
    return undefined
  return { field, declared: Object.keys(properties) }
}

/** Returns the valid name that was probably meant, as the end of a message. */
function suggestion({ field, declared }: Undeclared): string {
  const nearest = nearestName(field, declared)
  return nearest === undefined ? '' : `, did you mean ${nearest}?`
}
