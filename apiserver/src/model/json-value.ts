import { isRecord } from '@setpoint/controller-runtime/api'
/** A JSON object. Its own enumerable keys are its fields, of any name. */
export type JsonObject = Record<string, unknown>

/** Sets an own property of any name. Assigning to `__proto__` would set the prototype. */
export function setOwn(object: JsonObject, key: string, value: unknown): void {
  if (key !== '__proto__') object[key] = value
  else Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true })
}

/** Returns a deep copy of a JSON value. Recurses, so the nesting must be bounded. */
export function cloneJson(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(cloneJson)
  if (!isRecord(value)) return value
  const copy: JsonObject = {}
  for (const key of Object.keys(value)) setOwn(copy, key, cloneJson(value[key]))
  return copy
}

/** The extent of a JSON value. */
interface JsonExtent {
  /** Approximate bytes of its JSON. */
  readonly size: number
  readonly tooDeep: boolean
}

/** Measures a value without encoding it. Recurses up to `maxDepth` levels. */
export function extentOf(value: unknown, maxDepth: number): JsonExtent {
  if (typeof value === 'string') return { size: value.length + 2, tooDeep: false }
  if (typeof value !== 'object' || value === null) return { size: 5, tooDeep: false }
  if (maxDepth <= 0) return { size: 2, tooDeep: true }
  let size = 2
  for (const [key, item] of Array.isArray(value) ? value.entries() : Object.entries(value)) {
    const extent = extentOf(item, maxDepth - 1)
    if (extent.tooDeep) return extent
    size += extent.size + (typeof key === 'string' ? key.length + 4 : 1)
  }
  return { size, tooDeep: false }
}
