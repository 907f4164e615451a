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
  readonly bytes: number
  /** The levels of its objects and lists. */
  readonly depth: number
}

/** Measures a value without encoding it. Recurses, so the nesting must be bounded. */
export function extentOf(value: unknown): JsonExtent {
  if (typeof value === 'string') return { bytes: value.length + 2, depth: 0 }
  if (typeof value !== 'object' || value === null) return { bytes: 5, depth: 0 }
  let bytes = 2
  let depth = 0
  const add = (item: unknown) => {
    const extent = extentOf(item)
    bytes += extent.bytes + 1
    depth = Math.max(depth, extent.depth)
  }
  if (Array.isArray(value)) for (const item of value) add(item)
  else if (isRecord(value)) {
    for (const key in value) {
      bytes += key.length + 3
      add(value[key])
    }
  }
  return { bytes, depth: depth + 1 }
}

/** Returns true if a value has more levels of objects and lists than `levels`. Recurses as far. */
export function isDeeperThan(levels: number, value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (levels <= 0) return true
  if (Array.isArray(value)) return value.some(item => isDeeperThan(levels - 1, item))
  if (!isRecord(value)) return false
  for (const key in value) if (isDeeperThan(levels - 1, value[key])) return true
  return false
}
