import { isRecord } from './is-record.ts'
import { type KeysOf, refuseUnknownKeys } from './known-keys.ts'
import type { ApiObject } from './object.ts'
import { problemOfFunction } from './synchronous.ts'

interface IndexBase {
  /** Unique among the indexes of a model; by custom the path of the field. */
  readonly name: string
  /** The default direction of a sort. Default `ASC`. */
  readonly order?: 'ASC' | 'DESC'
  /** If true, no two objects can have the same value. */
  readonly unique?: boolean
  /** Limits `unique` to each namespace, for a namespaced kind. Default: values are unique in the whole kind. */
  readonly uniqueWithin?: 'namespace'
  /** Increase it whenever the `indexFunc` of a unique index changes. Default 1. */
  readonly version?: number
}

const indexKeys: KeysOf<IndexBase & { indexFunc: unknown }> = {
  name: true,
  order: true,
  unique: true,
  uniqueWithin: true,
  version: true,
  indexFunc: true,
}

/** One index of a model. */
export interface IndexSpec<T = ApiObject> extends Required<Omit<IndexBase, 'uniqueWithin'>> {
  readonly uniqueWithin: IndexBase['uniqueWithin'] | undefined
  readonly multiple: boolean
  /**
   * Set for an index of a definition: a hash of what its values are made of. With another source it is another index.
   */
  readonly source?: string
  /** Returns the index values of an object, which may be empty. @throws the error of `indexFunc` */
  // Method syntax, because it is bivariant: an index of a specific type is assignable to an index of any object.
  valuesOf(object: T): readonly string[]
}

/**
 * The result of `singleValueIndex` and `multiValueIndex`: a function that always returns the same index.
 *
 * It is a function because TypeScript defers a generic call that returns a function until it has inferred the rest of
 * the enclosing call. So within `defineModel`, `indexFunc` takes objects typed by the schema (model.test.ts).
 */
export type IndexDeclaration<T = ApiObject> = () => IndexSpec<T>

/** An index function returned something other than strings. */
export class IndexValueError extends TypeError {
  override readonly name = 'IndexValueError'
}

/**
 * Declares an index of at most one value for each object. `indexFunc` returns a string or undefined.
 * @throws TypeError for an unknown key, or if `indexFunc` is missing or async.
 */
export function singleValueIndex<T = ApiObject>(
  options: IndexBase & { indexFunc(object: T): string | undefined },
): IndexDeclaration<T> {
  const { indexFunc, ...rest } = checked('singleValueIndex', options)
  return declare(rest, false, (object: T) => {
    const value: unknown = indexFunc(object)
    if (value === undefined) return []
    if (typeof value !== 'string') {
      throw new IndexValueError(`indexFunc must return a string or undefined, returned ${describe(value)}`)
    }
    return [value]
  })
}

/**
 * Declares a selectable field as Kubernetes has it: an index of one value in which an absent field is the empty text,
 * so `involvedObject.namespace=` selects the events of objects without a namespace.
 */
export function selectableField<T = ApiObject>(
  options: IndexBase & { indexFunc(object: T): string | undefined },
): IndexDeclaration<T> {
  const { indexFunc } = options
  return singleValueIndex({ ...options, indexFunc: (object: T) => indexFunc(object) ?? '' })
}

/**
 * Declares an index of several values for each object, such as tags. `indexFunc` returns strings; duplicates count
 * once.
 * @throws TypeError for an unknown key, or if `indexFunc` is missing or async.
 */
export function multiValueIndex<T = ApiObject>(
  options: IndexBase & { indexFunc(object: T): readonly string[] },
): IndexDeclaration<T> {
  const { indexFunc, ...rest } = checked('multiValueIndex', options)
  return declare(rest, true, (object: T) => {
    const values: unknown = indexFunc(object)
    if (!Array.isArray(values)) {
      throw new IndexValueError(`indexFunc must return an array of strings, returned ${describe(values)}`)
    }
    for (const value of values) {
      if (typeof value !== 'string') {
        throw new IndexValueError(
          `indexFunc must return an array of strings, one element is ${describe(value)}`,
        )
      }
    }
    return values.length > 1 ? [...new Set<string>(values)] : values
  })
}

/** @throws TypeError for an unknown key, or if `indexFunc` is missing or async. */
function checked<O extends IndexBase & { readonly indexFunc: unknown }>(declaredBy: string, options: O): O {
  if (!isRecord(options)) throw new TypeError(`${declaredBy} must be given an object`)
  const { name = 'without a name', indexFunc } = options
  refuseUnknownKeys(options, indexKeys, `${declaredBy} of the index ${name}`)
  const problem = problemOfFunction(indexFunc)
  if (problem !== undefined) throw new TypeError(`index ${name}: indexFunc ${problem}`)
  return options
}

const marker = Symbol.for('setpoint.dev/index')

/** Returns true for a result of the two functions above, in any copy of the SDK. */
export function isIndexDeclaration(value: unknown): value is IndexDeclaration<never> {
  return typeof value === 'function' && marker in value
}

/** Returns true for the result of an index declaration, in any copy of the SDK. */
export function isIndexSpec(value: unknown): value is IndexSpec<never> {
  return typeof value === 'object' && value !== null && marker in value
}

function declare<T>(
  { name, order = 'ASC', unique = false, uniqueWithin, version = 1 }: IndexBase,
  multiple: boolean,
  valuesOf: (object: T) => readonly string[],
): IndexDeclaration<T> {
  const mark = { [marker]: true }
  const spec: IndexSpec<T> = Object.freeze({
    name,
    order,
    unique,
    uniqueWithin,
    version,
    multiple,
    valuesOf,
    ...mark,
  })
  return Object.freeze(Object.assign(() => spec, mark))
}

function describe(value: unknown): string {
  return value === null ? 'null' : Array.isArray(value) ? 'an array' : `a value of type ${typeof value}`
}
