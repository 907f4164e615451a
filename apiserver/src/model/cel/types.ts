/** The type of an expression, as far as it is known before the evaluation. */
export type CelType =
  | { readonly kind: ScalarKind }
  | { readonly kind: 'list'; readonly item: CelType }
  | { readonly kind: 'map'; readonly value: CelType }
  | { readonly kind: 'object'; readonly fields: ReadonlyMap<string, CelType> }
  | { readonly kind: 'optional'; readonly value: CelType }

type ScalarKind =
  | 'dyn'
  | 'null'
  | 'bool'
  | 'int'
  | 'double'
  | 'string'
  | 'bytes'
  | 'timestamp'
  | 'duration'
  | 'quantity'
  | 'url'
  | 'type'
  | 'authorizer'
  | 'pathCheck'
  | 'groupCheck'
  | 'resourceCheck'
  | 'decision'
  | 'ip'
  | 'cidr'
  | 'semver'
  | 'format'

export const dyn: CelType = { kind: 'dyn' }
export const bool: CelType = { kind: 'bool' }
export const int: CelType = { kind: 'int' }
export const string: CelType = { kind: 'string' }

export function listOf(item: CelType): CelType {
  return { kind: 'list', item }
}

/** Returns the type of the items of a list. */
export function itemOf(type: CelType = dyn): CelType {
  return type.kind === 'list' ? type.item : dyn
}

/** Names a type as CEL does: `list(int)`, `map(string, dyn)`. */
export function nameOf(type: CelType): string {
  switch (type.kind) {
    case 'list':
      return `list(${nameOf(type.item)})`
    case 'map':
      return `map(string, ${nameOf(type.value)})`
    case 'optional':
      return `optional(${nameOf(type.value)})`
    default:
      return type.kind
  }
}

/** Returns true if a value of one type can be one of the other. */
export function isCompatible(a: CelType, b: CelType): boolean {
  if (a.kind === 'dyn' || b.kind === 'dyn') return true
  switch (a.kind) {
    case 'list':
      return b.kind === 'list' && isCompatible(a.item, b.item)
    case 'map':
      return b.kind === 'map' && isCompatible(a.value, b.value)
    case 'optional':
      return b.kind === 'null' || (b.kind === 'optional' && isCompatible(a.value, b.value))
    case 'object': {
      if (b.kind !== 'object') return b.kind === 'null'
      // Two types with different fields never describe the same value.
      if (a.fields === b.fields) return true
      const names = [...a.fields.keys()]
      return a.fields.size === b.fields.size && names.every(name => b.fields.has(name))
    }
    default:
      return a.kind === b.kind || (a.kind === 'null' ? isNullable(b) : b.kind === 'null' && isNullable(a))
  }
}

const neverNull: ReadonlySet<CelType['kind']> = new Set([
  ...(['bool', 'int', 'double', 'string', 'bytes', 'list', 'map', 'type'] as const),
])

/** Returns true for the types that a comparison with null is allowed for, as in CEL for Go. */
function isNullable({ kind }: CelType): boolean {
  return !neverNull.has(kind)
}

/** Returns the type of a value that is of either type. */
export function joined(a: CelType, b: CelType): CelType {
  if (a === b) return a
  if (a.kind !== b.kind) return dyn
  if (a.kind === 'list' && b.kind === 'list') return listOf(joined(a.item, b.item))
  if (a.kind === 'map' && b.kind === 'map') return { kind: 'map', value: joined(a.value, b.value) }
  if (a.kind === 'optional' && b.kind === 'optional')
    return { kind: 'optional', value: joined(a.value, b.value) }
  if (a.kind === 'object' && b.kind === 'object') return a.fields === b.fields ? a : dyn
  return a
}
