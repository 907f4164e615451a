import { isRecord } from '@setpoint/controller-runtime/api'
import { echo, type JsonObject, quote } from '../model/index.ts'

/** A parsed RFC 6901 pointer. The empty pointer means the whole document. */
export interface JsonPointer {
  readonly text: string
  readonly tokens: readonly string[]
}

/** Levels of the deepest place that a pointer can name. No document nests deeper. */
const maxDepth = 200

/** @throws PointerError if `text` is not a pointer */
export function parsePointer(text: string): JsonPointer {
  if (text === '') return { text, tokens: [] }
  if (!text.startsWith('/')) throw new PointerError("must be empty or start with '/'")
  if (/~(?![01])/.test(text)) throw new PointerError("must write '~' as ~0 and '/' as ~1")
  const parts = text.slice(1).split('/', maxDepth + 1)
  if (parts.length > maxDepth) throw new PointerError(`must have at most ${maxDepth} levels`)
  const tokens = text.includes('~')
    ? parts.map(token => token.replaceAll('~1', '/').replaceAll('~0', '~'))
    : parts
  // The same rule as for field names in a body.
  if (tokens.includes('__proto__'))
    throw new PointerError('has the field name __proto__, which is not allowed')
  return { text, tokens }
}

/** A pointer is malformed or does not resolve. The message is a clause; the pointer is its subject. */
export class PointerError extends Error {
  override readonly name = 'PointerError'
}

/** A list or object, and the position in it that a pointer names. */
export type Place =
  | { readonly kind: 'item'; readonly list: unknown[]; readonly index: number }
  | { readonly kind: 'field'; readonly object: JsonObject; readonly key: string }

/** Returns the parent to go on in, instead of the one that was found at a place. The document itself has no place. */
type Enter = (parent: unknown, at: Place | undefined) => unknown

/**
 * Returns the place that a non-empty pointer names in `document`. The value may be missing, its parents may not. `-` is
 * the place after the last item of a list. Only own properties count.
 * @throws PointerError if a parent is missing or an index is invalid
 */
export function locate(document: unknown, pointer: JsonPointer, enter: Enter = parent => parent): Place {
  let parent = enter(document, undefined)
  for (let depth = 0; depth < pointer.tokens.length - 1; depth++) {
    const place = placeIn(parent, pointer, depth)
    parent = enter(valueAt(place, pointer, depth), place)
  }
  return placeIn(parent, pointer, pointer.tokens.length - 1)
}

/** Returns the value at a pointer. @throws PointerError if it is missing */
export function resolve(document: unknown, pointer: JsonPointer): unknown {
  if (pointer.tokens.length === 0) return document
  return valueAt(locate(document, pointer), pointer, pointer.tokens.length - 1)
}

/** Returns true if the place has a value. */
export function isPresent(place: Place): boolean {
  return place.kind === 'item' ? place.index < place.list.length : Object.hasOwn(place.object, place.key)
}

function placeIn(parent: unknown, pointer: JsonPointer, depth: number): Place {
  const token = pointer.tokens[depth] ?? ''
  if (Array.isArray(parent)) {
    if (token === '-') return { kind: 'item', list: parent, index: parent.length }
    if (!/^(?:0|[1-9][0-9]*)$/.test(token)) {
      throw new PointerError(`has ${quote(token)}, which is not an index of that list`)
    }
    const index = Number(token)
    if (index > parent.length) throw new PointerError(`goes past the end of a list of ${parent.length}`)
    return { kind: 'item', list: parent, index }
  }
  if (!isRecord(parent))
    throw new PointerError(`leads into a value that has no fields, at ${upTo(pointer, depth)}`)
  return { kind: 'field', object: parent, key: token }
}

function valueAt(place: Place, pointer: JsonPointer, depth: number): unknown {
  if (!isPresent(place))
    throw new PointerError(`does not exist: there is nothing at ${upTo(pointer, depth + 1)}`)
  return place.kind === 'item' ? place.list[place.index] : place.object[place.key]
}

function upTo(pointer: JsonPointer, depth: number): string {
  const text = pointer.text
    .split('/')
    .slice(0, depth + 1)
    .join('/')
  return text === '' ? 'the root' : echo(text)
}
