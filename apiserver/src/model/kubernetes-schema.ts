import { isRecord } from '@setpoint/controller-runtime/api'
import type { JsonObject } from './json-value.ts'
import { kubernetesFormat, kubernetesFormatNames } from './kubernetes-formats.ts'

/** Precedes the names of formats that are checked as Kubernetes checks them. */
const prefix = 'kubernetes:'

/** The checks by the names that `withKubernetesFormats` gives them. */
export const prefixedFormats = kubernetesFormatNames.map(
  name => [prefix + name, (text: string) => kubernetesFormat(name)?.(text) ?? true] as const,
)

/** Returns a schema whose formats are checked as Kubernetes checks them. It ignores those that it does not know. */
export function withKubernetesFormats(schema: JsonObject): JsonObject {
  const result: JsonObject = {}
  for (const [keyword, value] of Object.entries(schema)) {
    if (keyword === 'format') {
      const name = String(value).replaceAll('-', '')
      if (kubernetesFormat(name) !== undefined) result.format = prefix + name
    } else if (keyword === 'properties') {
      const properties = isRecord(value) ? Object.entries(value) : []
      result.properties = Object.fromEntries(properties.map(([name, part]) => [name, converted(part)]))
    } else if (keyword === 'items' || keyword === 'additionalProperties' || keyword === 'not')
      result[keyword] = converted(value)
    else if (keyword === 'allOf' || keyword === 'anyOf' || keyword === 'oneOf')
      result[keyword] = Array.isArray(value) ? value.map(converted) : value
    else result[keyword] = value
  }
  return result
}

function converted(part: unknown): unknown {
  return isRecord(part) ? withKubernetesFormats(part) : part
}

/** Returns the name of a format for messages. */
export function formatName(name: unknown): string {
  const text = String(name)
  return text.startsWith(prefix) ? text.slice(prefix.length) : text
}
