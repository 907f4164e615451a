/** Parse unknown JSON. Each function returns the value with its type, or throws with the value in the message. */

export type Fields = Readonly<Record<string, unknown>>

export function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export function fieldsOf(value: unknown): Fields {
  if (!isFields(value)) throw new Error(`not a JSON object: ${show(value)}`)
  return value
}

export function arrayOf(value: unknown): readonly unknown[] {
  if (!Array.isArray(value)) throw new Error(`not a JSON array: ${show(value)}`)
  return value
}

export function textOf(value: unknown): string {
  if (typeof value !== 'string') throw new Error(`not a string: ${show(value)}`)
  return value
}

export function optionalText(value: unknown): string | undefined {
  return value === undefined ? undefined : textOf(value)
}

export function numberOf(value: unknown): number {
  if (typeof value !== 'number') throw new Error(`not a number: ${show(value)}`)
  return value
}

function show(value: unknown): string {
  return (JSON.stringify(value) ?? String(value)).slice(0, 500)
}
