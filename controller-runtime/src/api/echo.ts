import { nameLimits } from './names.ts'

/**
 * Characters of a request's text that a message or a field path repeats: a response must not grow with the request. A
 * text that can be the name of an object is repeated whole, because its reader needs it.
 */
export const echoedCharacters = 100

/** Returns `text` on one line with at most `length` characters, for a message. */
export function shorten(text: string, length: number): string {
  return cut(text, length).replace(/\s+/g, ' ')
}

/** Returns at most `length` characters of `text`. */
export function cut(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length - 1).replace(/[\uD800-\uDBFF]$/, '')}…`
}

/** Shortens a request's text for a message or a field path. */
export function echo(text: string): string {
  return shorten(text, echoedCharacters)
}

/** Shortens the name of an object, a user or a kind in a request, unless it can be a name. */
export function echoName(name: string): string {
  return name.length <= nameLimits.name ? name : echo(name)
}

/** Returns a value of a request as JSON, cut, to quote it in a message. */
export function quote(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(cut(value, echoedCharacters))
  return cut(JSON.stringify(value) ?? 'undefined', echoedCharacters)
}

/**
 * Returns a value that should be a number, as a message shows it: a text is told from the number that it looks like.
 */
export function shownNumber(value: unknown): string {
  return typeof value === 'string' ? `the string ${JSON.stringify(shorten(value, 100))}` : String(value)
}
