import { ApiError, isRecord } from '@setpoint/controller-runtime/api'
import {
  cloneJson,
  countParts,
  deepEqual,
  extentOf,
  formatPath,
  isDeeperThan,
  objectLimits,
  partsName,
  quote,
  setOwn,
} from '../model/index.ts'
import {
  isPresent,
  type JsonPointer,
  locate,
  type Place,
  PointerError,
  parsePointer,
  resolve,
} from './json-pointer.ts'

export const jsonPatchDefaults = Object.freeze({
  /** Operations of one patch, as in Kubernetes. */
  maxOperations: 10_000,
  /**
   * Bytes added by all `copy` operations of one patch, bounded as in Kubernetes. Otherwise a few copies of a value into
   * itself would exhaust memory. The same as the limit of a body.
   */
  maxCopiedBytes: 3 * 1024 * 1024,
  /** Parts of the values of all `copy` operations, as `countParts` counts them: as many as an object may have. */
  maxCopiedParts: objectLimits.parts,
  /** List items shifted by insertions and removals. A shift takes about 1.5 ns. */
  maxShiftedItems: 10_000_000,
  /** Levels of all pointers together. To read and find one takes up to 250 ns. */
  maxLevels: 100_000,
  /** Characters of all pointers together. To read an escape takes up to 100 ns. */
  maxPointerCharacters: 500_000,
  /** Levels of nesting of the result, as for a decoded document. */
  maxDepth: 200,
})

type Operation =
  | { readonly op: 'add' | 'replace' | 'test'; readonly path: JsonPointer; readonly value: unknown }
  | { readonly op: 'remove'; readonly path: JsonPointer }
  | { readonly op: 'move' | 'copy'; readonly path: JsonPointer; readonly from: JsonPointer }

/**
 * Applies an RFC 6902 patch, all operations or none. Changes neither argument. The result shares parts with both. Both
 * must be decoded JSON values, since the decoder bounds their nesting.
 *
 * This is not the rfc6902 library because that writes to `/list/01`, removes the first item at `/list/length`, follows
 * `/constructor/x`, throws a TypeError inside strings, treats data with a field `constructor` as a list, and compares
 * lists for `test` in quadratic time.
 *
 * @param how.replacesAbsent true if `replace` may put a field that does not exist, as Kubernetes lets it
 * @throws ApiError BadRequest if `patch` is not a JSON patch or its result nests too deep, Invalid for an operation
 * that
 *   does not apply, RequestEntityTooLarge past a bound. The message names the operation, counted from 1, and its path.
 */
export function applyJsonPatch(
  target: unknown,
  patch: unknown,
  { replacesAbsent = false }: { readonly replacesAbsent?: boolean } = {},
): unknown {
  const operations = readOperations(patch)
  const document = new PatchedDocument(target, replacesAbsent)
  for (const [index, operation] of operations.entries()) {
    try {
      document.apply(operation)
    } catch (error) {
      const name = nameOf(index, operation)
      if (error instanceof LimitError) throw new ApiError('RequestEntityTooLarge', `${name} ${error.message}`)
      if (!(error instanceof PointerError)) throw error
      const message = `${name} does not apply: ${error.message}`
      const field = formatPath(operation.path.tokens)
      throw new ApiError('Invalid', message, { causes: [{ reason: 'FieldValueInvalid', message, field }] })
    }
  }
  const { maxDepth } = jsonPatchDefaults
  if (document.mayBeTooDeep && isDeeperThan(maxDepth, document.value)) {
    throw new ApiError('BadRequest', `the result of the patch nests deeper than ${maxDepth} levels`)
  }
  return document.value
}

/** An operation exceeds a bound. The message is a clause; the operation is its subject. */
class LimitError extends Error {
  override readonly name = 'LimitError'
}

/**
 * A document that operations change, with their cost so far. Copies the objects and lists that it changes, each once.
 */
class PatchedDocument {
  value: unknown
  /** True if an operation has put objects or lists so that they may nest too deep. */
  mayBeTooDeep = false
  /** The objects and lists that are copies. */
  readonly #own = new Set<unknown>()
  readonly #replacesAbsent: boolean
  #copiedBytes = 0
  #copiedParts = 0
  #shiftedItems = 0

  constructor(value: unknown, replacesAbsent: boolean) {
    this.value = value
    this.#replacesAbsent = replacesAbsent
  }

  /** @throws PointerError if the operation does not apply, LimitError if it costs too much */
  apply(operation: Operation): void {
    const { path } = operation
    switch (operation.op) {
      case 'add':
        this.#add(path, operation.value)
        break
      case 'replace':
        if (!this.#replacesAbsent || !isMissingField(this.value, path)) resolve(this.value, path)
        this.#add(path, operation.value, true)
        break
      case 'remove':
        this.#remove(path)
        break
      case 'copy':
        this.#add(path, this.#copyOf(operation.from))
        break
      case 'move':
        this.#move(operation.from, path)
        break
      case 'test':
        // As in Kubernetes. kube-rs adds the first finalizer of an object with such a test.
        if (operation.value === null && isMissingField(this.value, path)) break
        if (!deepEqual(resolve(this.value, path), operation.value))
          throw new PointerError('holds another value')
    }
  }

  #copyOf(from: JsonPointer): unknown {
    const { maxCopiedBytes, maxCopiedParts, maxDepth } = jsonPatchDefaults
    const original = resolve(this.value, from)
    // Earlier moves may have nested it too deep to walk. The result would be refused anyway.
    if (this.mayBeTooDeep && isDeeperThan(maxDepth, original))
      throw new LimitError(`copies a value that nests deeper than ${maxDepth} levels`)
    this.#copiedParts += countParts(original)
    if (this.#copiedParts > maxCopiedParts)
      throw new LimitError(`brings what the patch copies to more than ${maxCopiedParts} ${partsName}`)
    this.#copiedBytes += extentOf(original).bytes
    if (this.#copiedBytes > maxCopiedBytes)
      throw new LimitError(`brings what the patch copies to more than ${maxCopiedBytes} bytes`)
    return cloneJson(original)
  }

  #move(from: JsonPointer, path: JsonPointer): void {
    const value = resolve(this.value, from)
    if (path.text === from.text) return
    if (path.text.startsWith(`${from.text}/`)) throw new PointerError('is inside of the value to move')
    this.#remove(from)
    this.#put(path, value)
    // Its depth is not measured here, because a large value may be moved many times.
    if (typeof value === 'object') this.mayBeTooDeep = true
  }

  #add(pointer: JsonPointer, value: unknown, overwrite = false): void {
    this.#put(pointer, value, overwrite)
    if (pointer.tokens.length + extentOf(value).depth > jsonPatchDefaults.maxDepth) this.mayBeTooDeep = true
  }

  #put(pointer: JsonPointer, value: unknown, overwrite = false): void {
    if (pointer.tokens.length === 0) {
      this.value = value
      return
    }
    const place = locate(this.value, pointer, this.#enter)
    if (place.kind === 'item' && !overwrite) {
      this.#countShifted(place.list.length - place.index)
      place.list.splice(place.index, 0, value)
    } else set(place, value)
  }

  #remove(pointer: JsonPointer): void {
    if (pointer.tokens.length === 0) throw new PointerError('is the whole document, which cannot be removed')
    const place = locate(this.value, pointer, this.#enter)
    if (!isPresent(place)) throw new PointerError('does not exist')
    if (place.kind === 'field') delete place.object[place.key]
    else {
      this.#countShifted(place.list.length - place.index)
      place.list.splice(place.index, 1)
    }
  }

  /** Puts a copy of an object or list into its place before it is changed. */
  readonly #enter = (parent: unknown, at: Place | undefined): unknown => {
    if (typeof parent !== 'object' || parent === null || this.#own.has(parent)) return parent
    const copy = Array.isArray(parent) ? parent.slice() : { ...parent }
    this.#own.add(copy)
    if (at === undefined) this.value = copy
    else set(at, copy)
    return copy
  }

  #countShifted(items: number): void {
    this.#shiftedItems += items
    if (this.#shiftedItems > jsonPatchDefaults.maxShiftedItems) {
      throw new LimitError(
        `brings the list items that the patch shifts to more than ${jsonPatchDefaults.maxShiftedItems}`,
      )
    }
  }
}

function set(place: Place, value: unknown): void {
  if (place.kind === 'field') setOwn(place.object, place.key, value)
  else place.list[place.index] = value
}

/** @throws PointerError if a parent is missing or an index is invalid */
function isMissingField(document: unknown, pointer: JsonPointer): boolean {
  if (pointer.tokens.length === 0) return false
  const place = locate(document, pointer)
  return place.kind === 'field' && !isPresent(place)
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
  const operations: Operation[] = []
  const { maxLevels, maxPointerCharacters } = jsonPatchDefaults
  let levels = 0
  let characters = 0
  for (const [index, item] of patch.entries()) {
    if (isRecord(item)) characters += lengthOf(item.path) + lengthOf(item.from)
    checkPointers(characters, maxPointerCharacters, 'characters')
    const operation = readOperation(item, index)
    levels += operation.path.tokens.length + ('from' in operation ? operation.from.tokens.length : 0)
    checkPointers(levels, maxLevels, 'levels')
    operations.push(operation)
  }
  return operations
}

function lengthOf(pointer: unknown): number {
  return typeof pointer === 'string' ? pointer.length : 0
}

/** @throws ApiError 413 */
function checkPointers(found: number, limit: number, what: string): void {
  if (found <= limit) return
  throw new ApiError(
    'RequestEntityTooLarge',
    `the pointers of the patch have more than ${limit} ${what} together`,
  )
}

function readOperation(operation: unknown, index: number): Operation {
  const fail = (problem: string): ApiError =>
    new ApiError('BadRequest', `operation ${index + 1} of the patch ${problem}`)
  if (!isRecord(operation)) throw fail('must be an object')
  const pointer = (member: 'path' | 'from'): JsonPointer => {
    const text = Object.hasOwn(operation, member) ? operation[member] : undefined
    if (typeof text !== 'string') throw fail(`must have a ${JSON.stringify(member)} that is a string`)
    try {
      return parsePointer(text)
    } catch (error) {
      if (error instanceof PointerError)
        throw fail(`has a malformed ${member}: ${quote(text)} ${error.message}`)
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
  const from = 'from' in operation ? `${quote(operation.from.text)} to ` : ''
  return `operation ${index + 1} of the patch (${operation.op} ${from}${quote(operation.path.text)})`
}
