import { isRecord } from '@setpoint/controller-runtime/api'

/**
 * One step of a path in a field set, in Kubernetes' text form:
 *
 *     f:replicas           a field of a map
 *     k:{"name":"web"}     an item of a list of type map, by its keys in the order of their names
 *     v:"blue"             an item of a list of type set, by its value
 *     i:0                  an item of a list, by its position
 *
 * Two elements are equal exactly if their texts are. From `fieldpath/serialize-pe.go` of structured-merge-diff.
 */
export type PathElement = string

export function fieldElement(name: string): PathElement {
  return `f:${name}`
}

/** @param keys in the order of their names */
export function keyElement(keys: Readonly<Record<string, unknown>>): PathElement {
  for (const name in keys) if (isNested(keys[name])) return `k:${canonicalJson(keys)}`
  return `k:${JSON.stringify(keys)}`
}

export function valueElement(value: unknown): PathElement {
  return `v:${canonicalJson(value)}`
}

/** An element does not have the form of its kind. */
export class PathElementError extends Error {
  override readonly name = 'PathElementError'
}

/**
 * Returns a client's element in the form of this module, or undefined if it is of an unknown kind, which Kubernetes
 * ignores.
 * @throws PathElementError
 */
export function readElement(text: string): PathElement | undefined {
  if (text[1] !== ':')
    throw new PathElementError(`${JSON.stringify(text)} has no colon after its first letter`)
  const content = text.slice(2)
  switch (text[0]) {
    case 'f':
      return text
    case 'v':
      return valueElement(readJson(content, text))
    case 'k': {
      const keys = readJson(content, text)
      if (!isRecord(keys)) throw new PathElementError(`the keys of ${JSON.stringify(text)} are not an object`)
      return keyElement(sortedByKey(keys))
    }
    case 'i':
      if (!/^-?\d{1,15}$/.test(content))
        throw new PathElementError(`the position of ${JSON.stringify(text)} is not a number`)
      return `i:${Number(content)}`
    default:
      return undefined
  }
}

function readJson(content: string, element: string): unknown {
  try {
    return JSON.parse(content)
  } catch (cause) {
    throw new PathElementError(`${JSON.stringify(element)} does not hold JSON`, { cause })
  }
}

/** Returns true if an element has values of the object: those of an item of a list of type set or map. */
export function hasValue(element: PathElement): boolean {
  return element.startsWith('v:') || element.startsWith('k:')
}

/** Formats a path as Kubernetes does in conflicts, such as `.spec.ports[name="web"].port`. */
export function formatElements(path: readonly PathElement[]): string {
  return path.map(formatElement).join('')
}

function formatElement(element: PathElement): string {
  const content = element.slice(2)
  if (element.startsWith('f:')) return `.${content}`
  if (element.startsWith('v:')) return `[=${content}]`
  if (element.startsWith('i:')) return `[${content}]`
  const keys: unknown = JSON.parse(content)
  const parts = isRecord(keys) ? Object.entries(keys) : []
  return `[${parts.map(([name, value]) => `${name}=${JSON.stringify(value)}`).join(',')}]`
}

/** Returns a text that is the same for two JSON values exactly if they are equal. */
function canonicalJson(value: unknown): string {
  if (!isNested(value)) return JSON.stringify(value)
  return JSON.stringify(value, (_key, part: unknown) => (isRecord(part) ? sortedByKey(part) : part))
}

function isNested(value: unknown): boolean {
  return typeof value === 'object' && value !== null
}

function sortedByKey(object: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(object).sort(([a], [b]) => (a < b ? -1 : 1)))
}
