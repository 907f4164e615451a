import { ApiError } from '@setpoint/controller-runtime/api'
import { deepEqual } from '../model/deep-equal.ts'
import { formatPath } from '../model/field-path.ts'
import { cloneJson, extentOf, isJsonObject, setOwn } from '../model/json-value.ts'
import { shorten } from '../model/text-position.ts'
import { isPresent, type JsonPointer, locate, PointerError, parsePointer, resolve } from './json-pointer.ts'

export const jsonPatchDefaults = Object.freeze({
  /** Operations of one patch, as in Kubernetes. */
  maxOperations: 10_000,
  /**
   * Bytes that all `copy` operations of one patch may add together, as in Kubernetes: a few copies of a value into
   * itself would else double it beyond memory. As much as a body may have.
   */
  maxCopiedBytes: 3 * 1024 * 1024,
  /** Levels of nesting of the result, as for a decoded document. */
  maxDepth: 200,
})

type Operation =
  | { readonly op: 'add' | 'replace' | 'test'; readonly path: JsonPointer; readonly value: unknown }
  | { readonly op: 'remove'; readonly path: JsonPointer }
  | { readonly op: 'move' | 'copy'; readonly path: JsonPointer; readonly from: JsonPointer }

/**
 * The target with an RFC 6902 patch applied, all operations or none. Neither argument is changed, and the result
 * shares nothing with them. Both must be decoded JSON values: the nesting is bounded there.
 *
 * Own code rather than a library: rfc6902 writes to `/list/01`, removes the first item at `/list/length`, goes on in
 * the same object at `/constructor/x`, throws a TypeError inside strings, takes data with a field `constructor` for
 * a list, and compares lists for `test` in quadratic time.
 *
 * @throws ApiError BadRequest where `patch` is no JSON patch, or its result nests too deep; Invalid for an operation
 *   that does not apply; RequestEntityTooLarge for too many operations or too much copied. The message names the
 *   operation, counted from 1, and its path.
 */
export function applyJsonPatch(target: unknown, patch: unknown): unknown {
  const operations = readOperations(patch)
  let document = cloneJson(target)
  let copiedBytes = 0
  for (const [index, operation] of operations.entries()) {
    try {
      if (operation.op === 'copy') {
        const { size, tooDeep } = extentOf(resolve(document, operation.from), jsonPatchDefaults.maxDepth)
        if (tooDeep) throw tooDeepError()
        copiedBytes += size
        if (copiedBytes > jsonPatchDefaults.maxCopiedBytes) {
          throw new ApiError(
            'RequestEntityTooLarge',
            `${nameOf(index, operation)}: the copies of this patch add more than ${jsonPatchDefaults.maxCopiedBytes} bytes`,
          )
        }
      }
      document = apply(document, operation)
    } catch (error) {
      if (!(error instanceof PointerError)) throw error
      const field = formatPath(operation.path.tokens)
      const message = `${nameOf(index, operation)} does not apply: ${error.message}`
      throw new ApiError('Invalid', message, { causes: [{ reason: 'FieldValueInvalid', message, field }] })
    }
  }
  if (extentOf(document, jsonPatchDefaults.maxDepth).tooDeep) throw tooDeepError()
  return document
}

function tooDeepError(): ApiError {
  return new ApiError('BadRequest', `the patch nests values deeper than ${jsonPatchDefaults.maxDepth} levels`)
}

/** The document after one operation; changes `document` in place. @throws PointerError where it does not apply. */
function apply(document: unknown, operation: Operation): unknown {
  const { path } = operation
  switch (operation.op) {
    case 'add':
      return put(document, path, cloneJson(operation.value))
    case 'replace':
      resolve(document, path)
      return put(document, path, cloneJson(operation.value), true)
    case 'remove':
      return remove(document, path)
    case 'copy':
      return put(document, path, cloneJson(resolve(document, operation.from)))
    case 'move': {
      const { from } = operation
      const value = resolve(document, from)
      if (path.text === from.text) return document
      if (path.text.startsWith(`${from.text}/`))
        throw new PointerError(`is inside of the value to move, ${quote(from)}`)
      return put(remove(document, from), path, value)
    }
    case 'test':
      if (!deepEqual(resolve(document, path), operation.value)) throw new PointerError('holds another value')
      return document
  }
}

function put(document: unknown, pointer: JsonPointer, value: unknown, overwrite = false): unknown {
  if (pointer.tokens.length === 0) return value
  const place = locate(document, pointer)
  if (place.kind === 'field') setOwn(place.object, place.key, value)
  else if (overwrite) place.list[place.index] = value
  else place.list.splice(place.index, 0, value)
  return document
}

function remove(document: unknown, pointer: JsonPointer): unknown {
  if (pointer.tokens.length === 0) throw new PointerError('is the whole document, which cannot be removed')
  const place = locate(document, pointer)
  if (!isPresent(place)) throw new PointerError('does not exist')
  if (place.kind === 'field') delete place.object[place.key]
  else place.list.splice(place.index, 1)
  return document
}

function readOperations(patch: unknown): Operation[] {
  if (!Array.isArray(patch)) {
    throw new ApiError(
      'BadRequest',
      'a JSON patch must be an array of operations, such as [{"op":"add","path":"/a","value":1}]',
    )
  }
  if (patch.length > jsonPatchDefaults.maxOperations) {
    throw new ApiError(
      'RequestEntityTooLarge',
      `the patch has ${patch.length} operations, at most ${jsonPatchDefaults.maxOperations} are allowed`,
    )
  }
  return patch.map((operation: unknown, index) => readOperation(operation, index))
}

function readOperation(operation: unknown, index: number): Operation {
  const fail = (problem: string): ApiError =>
    new ApiError('BadRequest', `operation ${index + 1} of the patch ${problem}`)
  if (!isJsonObject(operation)) throw fail('must be an object')
  const pointer = (member: 'path' | 'from'): JsonPointer => {
    const text = Object.hasOwn(operation, member) ? operation[member] : undefined
    if (typeof text !== 'string') throw fail(`must have a ${JSON.stringify(member)} that is a string`)
    try {
      return parsePointer(text)
    } catch (error) {
      if (error instanceof PointerError)
        throw fail(`has a malformed ${member}: ${JSON.stringify(shorten(text, 100))} ${error.message}`)
      throw error
    }
  }
  const op = Object.hasOwn(operation, 'op') ? operation.op : undefined
  switch (op) {
    case 'add':
    case 'replace':
    case 'test':
      if (!Object.hasOwn(operation, 'value')) throw fail(`(${op}) must have a "value"`)
      return { op, path: pointer('path'), value: operation.value }
    case 'remove':
      return { op, path: pointer('path') }
    case 'move':
    case 'copy':
      return { op, path: pointer('path'), from: pointer('from') }
    default:
      throw fail('must have an "op" that is one of add, remove, replace, move, copy, test')
  }
}

function nameOf(index: number, operation: Operation): string {
  const from = 'from' in operation ? `${quote(operation.from)} to ` : ''
  return `operation ${index + 1} of the patch (${operation.op} ${from}${quote(operation.path)})`
}

function quote(pointer: JsonPointer): string {
  return JSON.stringify(shorten(pointer.text, 200))
}
