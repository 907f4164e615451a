import type { Action, Model } from '@setpoint/controller-runtime/api'

/** Returns the pattern of an action's path below the group version. */
export function patternOfAction({ model: { plural, scope }, name }: Action): string {
  return `${scope === 'Namespaced' ? '/namespaces/:namespace' : ''}/${plural}/:name/${name}`
}

/** Returns the segments of a pattern, with `*` for every parameter. */
export function shapeOf(pattern: string): string[] {
  return segmentsOf(pattern).map(part => (/[:*{(]/.test(part) ? '*' : part))
}

function segmentsOf(pattern: string): string[] {
  return pattern.split('/').filter(part => part !== '')
}

/** Returns true if a pattern can match a generated path of a kind, in a namespace or not. */
export function matchesGenerated(pattern: string, { plural, scope }: Model): boolean {
  const shape = shapeOf(pattern)
  const [first] = shape
  const isBelow = first === 'namespaces' || first === '*'
  const isInNamespace = scope === 'Namespaced' && isBelow && matchesKind(shape.slice(2), plural)
  return isInNamespace || matchesKind(shape, plural)
}

/** Returns true if a shape can match `<plural>`, `<plural>/<name>` or `<plural>/<name>/status`. */
function matchesKind([first, , third, ...deeper]: readonly string[], plural: string): boolean {
  if (first === undefined) return false
  if (first !== plural && first !== '*') return false
  return deeper.length === 0 && (third === undefined || third === 'status' || third === '*')
}

/** Returns true if a path matches both patterns. */
export function overlap(left: string, right: string): boolean {
  return pathsOf(left).some(a => pathsOf(right).some(b => fit(a, b)))
}

/**
 * Returns true if a path matches both. A parameter such as `*rest` matches one or more segments, also in the middle.
 */
function fit([first, ...others]: readonly string[], [second, ...rest]: readonly string[]): boolean {
  if (first === undefined || second === undefined) return first === second
  const [isRest, isOtherRest] = [first.includes('*'), second.includes('*')]
  if (isRest && rest.length > 0 && fit([first, ...others], rest)) return true
  if (isOtherRest && others.length > 0 && fit(others, [second, ...rest])) return true
  return (isParameter(first) || isParameter(second) || first === second) && fit(others, rest)
}

function isParameter(part: string): boolean {
  return /[:*(]/.test(part)
}

/** Returns the shapes of a pattern without and with its optional parts. */
export function shapesOf(pattern: string): string[][] {
  return variantsOf(pattern).map(shapeOf)
}

function pathsOf(pattern: string): string[][] {
  return variantsOf(pattern).map(segmentsOf)
}

/** The pattern without and with its optional parts, `{/:name}`. */
function variantsOf(pattern: string): string[] {
  const [, before, optional, after] = /^(.*?)\{(.*?)\}(.*)$/.exec(pattern) ?? []
  if (before === undefined) return [pattern]
  return [...variantsOf(`${before}${after}`), ...variantsOf(`${before}${optional}${after}`)]
}
