import { type Fields, fieldsOf, isFields, textsOf } from '../api/json.ts'
import { type KindSchema, resolved } from '../api/schema.ts'
import { toYaml } from './yaml.ts'

/** Returns the text that a new object begins with: what the schema requires and presets. */
export function templateOf(
  { schema, document, example }: KindSchema,
  { apiVersion, kind, namespace }: { apiVersion: string; kind: string; namespace: string | undefined },
): string {
  const metadata = { name: '', ...(namespace !== undefined && { namespace }) }
  const samples = fieldsOf(example)
  const properties = fieldsOf(schema.properties)
  const content: Record<string, unknown> = {}
  for (const [name, property] of Object.entries(properties)) {
    if (name === 'apiVersion' || name === 'kind' || name === 'metadata' || name === 'status') continue
    const value = startOf(resolved(property, document), document, samples[name], 0)
    if (value !== undefined && (name === 'spec' || textsOf(schema.required).includes(name)))
      content[name] = value
  }
  return toYaml({ apiVersion, kind, metadata, ...content })
}

/** Deeper fields are left to the person. */
const maxDepth = 6

/** Returns what a value of a schema begins with. @param sample an example of it */
export function startOf(schema: Fields, document: Fields, sample: unknown, depth: number): unknown {
  if (schema.default !== undefined) return schema.default
  if (Array.isArray(schema.enum)) return schema.enum[0]
  if (schema.type === 'object' || isFields(schema.properties)) {
    if (depth > maxDepth) return {}
    const required = textsOf(schema.required)
    const samples = fieldsOf(sample)
    const entries = Object.entries(fieldsOf(schema.properties)).flatMap(([name, property]) => {
      const part = resolved(property, document)
      if (!required.includes(name) && part.default === undefined) return []
      return [[name, startOf(part, document, samples[name], depth + 1)]]
    })
    return Object.fromEntries(entries)
  }
  if (schema.type === 'array') return []
  if (schema.type === 'boolean') return false
  if (schema.type === 'integer' || schema.type === 'number')
    return typeof schema.minimum === 'number' ? schema.minimum : typeof sample === 'number' ? sample : 0
  return ''
}
