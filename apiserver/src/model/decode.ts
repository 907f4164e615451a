import { ApiError, errorMessage } from '@setpoint/controller-runtime/api'
import { echo, quote } from '@setpoint/controller-runtime/internal'
import { formatPath } from './field-path.ts'
import { countParts, duplicateJsonFields, findJsonError, inspectJson } from './json-text.ts'
import { objectLimits, partsName, valuesName } from './object-limits.ts'
import { positionAt, type TextPosition } from './text-position.ts'
import { type DocumentText, splitDocuments } from './yaml-documents.ts'
import { type DuplicateKey, inexactNumber, readYaml, YamlError } from './yaml-text.ts'

export const decodeDefaults = Object.freeze({
  /** Levels of nesting. Far more than any object needs, and safe for recursive readers. */
  maxDepth: 200,
  /**
   * Parts of a JSON body, as `countParts` counts them. Decoding takes up to 0.8 µs of each, and a write as much again
   * before it refuses the object, in one turn of the event loop each. A JSON patch of 10,000 operations has 40,000.
   */
  maxParts: 45_000,
  /** Values of a JSON body, as `countValues` counts them: as many as an object may have. */
  maxValues: objectLimits.values,
  /** Numbers of a JSON body with more than 15 characters. To check that one is kept exactly takes up to 0.7 µs. */
  maxLongNumbers: 50_000,
  /** Bytes of a YAML body. js-yaml takes about 50 ms of processor time for the slowest body of this size. */
  maxYamlBytes: 64 * 1024,
  /**
   * UTF-16 units of a malformed JSON body up to which its first error is explained. That takes 40 ns for each. For a
   * longer one the response has V8's message.
   */
  maxExplainedUnits: 512 * 1024,
})

/**
 * Decodes a request body into a new JSON value. Rejects numbers that a double cannot keep exactly, and fields named
 * `__proto__`; any other name is an ordinary own property. Of duplicate fields the last one counts.
 * @throws ApiError BadRequest with the problem and its place: line and column from 1, in JSON the offset too;
 *   RequestEntityTooLarge for YAML of more than `maxYamlBytes`, or JSON of more than `maxParts`, `maxValues` or
 *   `maxLongNumbers`
 */
export function decodeDocument(bytes: Uint8Array, mediaType: 'json' | 'yaml'): unknown {
  return decodeBody(bytes, mediaType).value
}

/** A field that an object of a body has already. */
export interface DuplicateField {
  /** As in Kubernetes. */
  readonly message: string
  /** The path of the field, if the body is JSON. */
  readonly field?: string
}

/** A decoded body, and its duplicate fields, of which the value has the last. */
export interface DecodedBody {
  readonly value: unknown
  /** False if the body has no null. */
  readonly mayHaveNulls: boolean
  /** Returns the first `objectLimits.violations` of them. */
  duplicates(): readonly DuplicateField[]
}

/** Does the same as `decodeDocument`, with the same errors. */
export function decodeBody(bytes: Uint8Array, mediaType: 'json' | 'yaml'): DecodedBody {
  const { maxYamlBytes } = decodeDefaults
  if (mediaType === 'yaml' && bytes.length > maxYamlBytes) {
    throw new ApiError(
      'RequestEntityTooLarge',
      `the YAML body has ${bytes.length} bytes, at most ${maxYamlBytes} are read; send larger bodies as JSON`,
    )
  }
  const text = decodeText(bytes)
  if (mediaType === 'yaml') {
    const { value, duplicates: keys } = decodeYaml(text)
    const duplicates = () => keys.map(duplicateKey)
    return { value, mayHaveNulls: true, duplicates }
  }
  const { value, parts } = decodeJson(text)
  // A field that is dropped is missing from the count. The text is read a second time only then.
  const duplicates = () => {
    const fields = countParts(value) === parts ? [] : duplicateJsonFields(text, objectLimits.violations)
    return fields.map(field => ({ message: `duplicate field "${field}"`, field }))
  }
  return { value, mayHaveNulls: text.includes('null'), duplicates }
}

/** In the words of Kubernetes' YAML decoder. */
function duplicateKey({ key, position: { line } }: DuplicateKey): DuplicateField {
  return { message: `line ${line}: key ${quote(key)} already set in map` }
}

/** One document of a YAML text: its value or its error. */
interface DecodedDocument {
  /** The document's first line, from 1: its `---`, or else its first line with content. */
  line: number
  value?: unknown
  /** BadRequest. Lines in the message count from the start of the whole text. */
  error?: ApiError
}

/**
 * Decodes each document of a YAML text separately, so a malformed one does not hide the others. Skips empty documents
 * (only blank lines and comments). Rejects duplicate fields.
 */
export function decodeDocuments(text: string): DecodedDocument[] {
  return splitDocuments(text.replace(/^\uFEFF/, '')).map(part => {
    try {
      const { value, duplicates } = readPart(part)
      const [duplicate] = duplicates
      if (duplicate !== undefined) throw new YamlError('the field is given twice', duplicate.position)
      return { line: part.line, value }
    } catch (error) {
      if (error instanceof YamlError) return { line: part.line, error: invalidYaml(error) }
      throw error
    }
  })
}

const utf8 = new TextDecoder('utf-8', { fatal: true })

function decodeText(bytes: Uint8Array): string {
  let text: string
  try {
    text = utf8.decode(bytes)
  } catch (error) {
    const at = firstInvalidByte(bytes)
    const where = at === undefined ? '' : `, at byte ${at}`
    throw new ApiError('BadRequest', `the body is not valid UTF-8${where}`, undefined, { cause: error })
  }
  if (!/\S/.test(text)) throw new ApiError('BadRequest', 'the body is empty, expected a document')
  return text
}

/** Replacement characters that a client may send before the place of an invalid byte is no longer looked for. */
const maxReplacements = 10_000

/** Returns the offset of the first byte that is not valid UTF-8, or undefined if it is not found. */
function firstInvalidByte(bytes: Uint8Array): number | undefined {
  const replaced = new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes)
  const given = Buffer.from('\uFFFD')
  let byte = 0
  let from = 0
  let left = maxReplacements
  for (let at = replaced.indexOf('\uFFFD'); at >= 0; at = replaced.indexOf('\uFFFD', from)) {
    if (left-- === 0) return undefined
    byte += Buffer.byteLength(replaced.slice(from, at))
    // The client may have sent a replacement character.
    if (!given.equals(bytes.subarray(byte, byte + given.length))) return byte
    byte += given.length
    from = at + 1
  }
  return byte
}

function decodeJson(text: string): { value: unknown; parts: number } {
  const { maxDepth, maxExplainedUnits, maxLongNumbers, maxParts, maxValues } = decodeDefaults
  const { tooDeep, inexact, longNumbers, minusZero, parts, commas } = inspectJson(
    text,
    maxDepth,
    maxLongNumbers,
  )
  if (tooDeep !== undefined) throw invalidJson(text, tooDeep, `nested deeper than ${maxDepth} levels`)
  if (parts > maxParts) {
    throw new ApiError(
      'RequestEntityTooLarge',
      `the body has ${parts} ${partsName}, at most ${maxParts} are read`,
    )
  }
  if (commas >= maxValues) {
    throw new ApiError('RequestEntityTooLarge', `the body has more than ${maxValues} ${valuesName}`)
  }
  if (longNumbers > maxLongNumbers) {
    const message = `the body has ${longNumbers} numbers of more than 15 characters, at most ${maxLongNumbers} are read`
    throw new ApiError('RequestEntityTooLarge', message)
  }
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    const found = text.length <= maxExplainedUnits ? findJsonError(text) : undefined
    if (found === undefined) {
      const message = `the body is not valid JSON: ${echo(errorMessage(error))}`
      throw new ApiError('BadRequest', message, undefined, { cause: error })
    }
    const { offset, length, problem } = found
    const seen =
      offset < text.length
        ? quotePiece(text.slice(offset, offset + Math.max(length, 1)))
        : 'the end of the body'
    throw invalidJson(text, offset, `${problem}, found ${seen}`)
  }
  if (inexact !== undefined) throw invalidJson(text, inexact[0], inexactNumber(text.slice(...inexact)))
  if (minusZero) value = withoutMinusZero(value)
  // Spares most bodies the walk. The name may also be written with escapes.
  if (text.includes('__proto__') || text.includes('\\u00')) refuseProto(value, [])
  return { value, parts }
}

/** Quotes a piece of the body on one line, with look-alike blanks and control characters escaped. */
function quotePiece(piece: string): string {
  const short = piece.length > 20 ? `${piece.slice(0, 20)}…` : piece
  return JSON.stringify(short).replace(/[\u007f-\u00a0\u2000-\u200f\u2028-\u202f\ufeff]/g, spellOut)
}

function spellOut(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
}

function invalidJson(text: string, offset: number, problem: string): ApiError {
  const { line, column } = positionAt(text, offset)
  return new ApiError(
    'BadRequest',
    `the body is not valid JSON: line ${line}, column ${column} (offset ${offset}): ${problem}`,
  )
}

/** Replaces -0 by 0, as encoding it would. Changes `value` in place. */
function withoutMinusZero(value: unknown): unknown {
  if (value === 0) return 0
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) {
      const item: unknown = value[index]
      if (item === 0) value[index] = 0
      else if (isObject(item)) withoutMinusZero(item)
    }
  } else if (isObject(value)) {
    for (const key in value) {
      if (key !== '__proto__') value[key] = withoutMinusZero(value[key])
    }
  }
  return value
}

/**
 * Rejects a field named `__proto__`. It is harmless here, but Object.assign in a plugin would turn it into the
 * prototype of the copy.
 */
function refuseProto(value: unknown, path: (string | number)[]): void {
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) {
      if (!isObject(item)) continue
      path.push(index)
      refuseProto(item, path)
      path.pop()
    }
  } else if (isObject(value)) {
    for (const key in value) {
      path.push(key)
      if (key === '__proto__') {
        throw new ApiError('BadRequest', `the field name __proto__ is not allowed: ${formatPath(path)}`)
      }
      refuseProto(value[key], path)
      path.pop()
    }
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}

function decodeYaml(text: string): ReturnType<typeof readYaml> {
  const [part, second] = splitDocuments(text)
  try {
    if (part === undefined) throw new YamlError('there is nothing but blank lines and comments')
    if (second !== undefined)
      throw new YamlError('expected one document, here a second one begins', { line: second.line, column: 1 })
    return readPart(part)
  } catch (error) {
    throw error instanceof YamlError ? invalidYaml(error) : error
  }
}

/** @throws YamlError with positions in the whole text. */
function readPart(part: DocumentText): ReturnType<typeof readYaml> {
  const inWhole = ({ line, column }: TextPosition) => ({ line: line + part.firstLine - 1, column })
  try {
    const { value, duplicates } = readYaml(part.text, decodeDefaults.maxDepth, objectLimits.violations)
    return { value, duplicates: duplicates.map(each => ({ ...each, position: inWhole(each.position) })) }
  } catch (error) {
    if (!(error instanceof YamlError)) throw error
    throw new YamlError(error.message, error.position && inWhole(error.position), { cause: error.cause })
  }
}

function invalidYaml({ message, position, cause }: YamlError): ApiError {
  const where = position === undefined ? '' : `line ${position.line}, column ${position.column}: `
  return new ApiError('BadRequest', `the text is not valid YAML: ${where}${message}`, undefined, { cause })
}
