/**
 * Returns true if two JSON values are equal. The order of keys does not matter. As in JSON, -0 equals 0, and an
 * undefined property is absent. Recurses, so the nesting must be bounded.
 */
export function deepEqual(a: unknown, b: unknown): boolean {
  if (a === b) return true
  if (!isObject(a) || !isObject(b)) return false
  if (Array.isArray(a) || Array.isArray(b)) return Array.isArray(a) && Array.isArray(b) && equalLists(a, b)
  return equalObjects(a, b)
}

type JsonObject = Readonly<Record<string, unknown>>

function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null
}

function equalLists(a: readonly unknown[], b: readonly unknown[]): boolean {
  if (a.length !== b.length) return false
  for (let index = 0; index < a.length; index++) {
    if (!deepEqual(a[index], b[index])) return false
  }
  return true
}

function equalObjects(a: JsonObject, b: JsonObject): boolean {
  // Objects of JSON inherit no enumerable field, and this is faster for large ones than Object.keys.
  let unmatched = 0
  for (const key in a) {
    const value = a[key]
    if (value === undefined) continue
    if (!Object.hasOwn(b, key) || !deepEqual(value, b[key])) return false
    unmatched++
  }
  for (const key in b) {
    if (b[key] !== undefined) unmatched--
  }
  return unmatched === 0
}
