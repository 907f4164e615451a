import { hostileText } from './hostile-text.ts'
import { type Fields, fieldsOf, isFields } from './json.ts'

/** Hostile values for the fields of a schema. */

/** How much a value may have. */
export interface Room {
  readonly characters: number
  /** Fields, and list items that are objects or lists. */
  readonly parts: number
}

/** Characters of a text in a list or map. */
const itemCharacters = 40
/** The longest text that is checked for a format. */
const formatCharacters = 2048

/** Returns a value that takes all the room, with texts of this shape. */
export function hostileValue(schema: Fields, shape: string, { characters, parts }: Room): unknown {
  const { type, format, items = {}, additionalProperties, properties = {} } = schema
  const names = Object.keys(fieldsOf(properties))
  const textOf = (length: number) =>
    hostileText(shape, Math.min(length, characters), String(schema.example ?? 'a'))
  if (type === 'integer' || type === 'number') return Number.MAX_SAFE_INTEGER
  if (type === 'array') {
    const item = fieldsOf(items)
    const room = {
      characters: item.format === undefined ? itemCharacters : formatCharacters,
      parts: Object.keys(fieldsOf(item.properties ?? {})).length,
    }
    const isText = item.type === 'string' || item.type === 'integer'
    const length = Math.min(characters / room.characters, isText ? characters : parts / (room.parts + 1))
    return Array.from({ length }, () => hostileValue(item, shape, room))
  }
  if (names.length > 0) {
    const room = { characters: characters / names.length, parts: parts / names.length }
    return Object.fromEntries(
      Object.entries(fieldsOf(properties)).map(([name, field]) => [
        name,
        hostileValue(fieldsOf(field), shape, room),
      ]),
    )
  }
  if (type === undefined || type === 'object') {
    const value = isFields(additionalProperties) ? additionalProperties : { type: 'string' }
    const room = { characters: itemCharacters, parts: 1 }
    const length = Math.min(characters / (2 * itemCharacters), parts)
    return Object.fromEntries(
      Array.from({ length }, (_, n) => [`${textOf(itemCharacters)}${n}`, hostileValue(value, shape, room)]),
    )
  }
  return textOf(format === undefined ? characters : formatCharacters)
}

/** Returns the fields of a schema with their places; the items of a list have the step `0`. */
export function* fieldsIn(
  schema: Fields,
  place: readonly string[] = [],
): Generator<{ place: readonly string[]; field: Fields }> {
  for (const [name, value] of Object.entries(fieldsOf(schema.properties ?? {}))) {
    const field = fieldsOf(value)
    yield { place: [...place, name], field }
    yield* fieldsIn(field, [...place, name])
    if (isFields(field.items)) yield* fieldsIn(field.items, [...place, name, '0'])
  }
}

/** Returns a value with another one at a place in it. */
export function withValue(value: unknown, [step, ...rest]: readonly string[], other: unknown): unknown {
  if (step === undefined) return other
  if (step === '0') return [withValue(undefined, rest, other)]
  const fields = isFields(value) ? value : {}
  return { ...fields, [step]: withValue(fields[step], rest, other) }
}
