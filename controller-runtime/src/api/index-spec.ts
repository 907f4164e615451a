import type { ApiObject } from './object.ts'

interface IndexBase {
  /** Unique among the indexes of a model; by custom the path of the field. */
  readonly name: string
  /** The direction of a sort that names none. Default `ASC`. */
  readonly order?: 'ASC' | 'DESC'
  /** Whether two objects may never hold one value. */
  readonly unique?: boolean
  /** Of a unique index: raised by the author whenever `indexFunc` changes. Default 1. */
  readonly version?: number
}

/** One index of a model. */
export interface IndexSpec<T = ApiObject> extends Required<IndexBase> {
  readonly multiple: boolean
  /** The index values of an object; none is an empty array. Throws what the author's function throws. */
  // Method syntax on purpose: an index over a specific object type is usable where any object's index is expected.
  valuesOf(object: T): readonly string[]
}

/**
 * An index as `singleValueIndex` and `multiValueIndex` declare it. Called, it answers the index, always the same.
 *
 * It is a function for TypeScript's sake: a call that answers a function is put off until everything else of the call
 * around it is known. So within `defineModel` the object that `indexFunc` gets has the types that follow from the
 * schema. (The test "types what its index functions read" does not compile without.)
 */
export type IndexDeclaration<T = ApiObject> = () => IndexSpec<T>

/** An index function answered something other than strings. */
export class IndexValueError extends TypeError {
  override readonly name = 'IndexValueError'
}

/** An index of at most one value for each object. `indexFunc` answers a string, or undefined for none. */
export function singleValueIndex<T = ApiObject>(
  options: IndexBase & { indexFunc(object: T): string | undefined },
): IndexDeclaration<T> {
  const { indexFunc, ...rest } = checked(options)
  return declare(rest, false, (object: T) => {
    const value: unknown = indexFunc(object)
    if (value === undefined) return []
    if (typeof value !== 'string') {
      throw new IndexValueError(`indexFunc must return a string or undefined, returned ${describe(value)}`)
    }
    return [value]
  })
}

/** An index of several values for each object, such as tags. `indexFunc` answers an array of strings; repetitions count once. */
export function multiValueIndex<T = ApiObject>(
  options: IndexBase & { indexFunc(object: T): readonly string[] },
): IndexDeclaration<T> {
  const { indexFunc, ...rest } = checked(options)
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

/** @throws TypeError naming the index that has no function. */
function checked<O extends IndexBase & { readonly indexFunc: unknown }>(options: O): O {
  if (typeof options?.indexFunc !== 'function')
    throw new TypeError(`index ${options?.name ?? 'without a name'}: indexFunc must be a function`)
  return options
}

const marker = Symbol.for('setpoint.dev/index')

/** Whether one of the two functions above made this, in whichever copy of the SDK. */
export function isIndexDeclaration(value: unknown): value is IndexDeclaration<never> {
  return typeof value === 'function' && marker in value
}

/** Whether this is what an index declaration answered. */
export function isIndexSpec(value: unknown): value is IndexSpec<never> {
  return typeof value === 'object' && value !== null && marker in value
}

function declare<T>(
  { name, order = 'ASC', unique = false, version = 1 }: IndexBase,
  multiple: boolean,
  valuesOf: (object: T) => readonly string[],
): IndexDeclaration<T> {
  const mark = { [marker]: true }
  const spec: IndexSpec<T> = Object.freeze({ name, order, unique, version, multiple, valuesOf, ...mark })
  return Object.freeze(Object.assign(() => spec, mark))
}

function describe(value: unknown): string {
  return value === null ? 'null' : Array.isArray(value) ? 'an array' : `a value of type ${typeof value}`
}
