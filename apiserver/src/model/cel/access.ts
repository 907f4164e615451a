import { stepCosts } from './budget.ts'
import type { Compiled, Frame } from './compiled.ts'
import { CelEvaluationError } from './errors.ts'
import type { CelType } from './types.ts'
import { type CelValue, isList, isMap, Optional } from './values.ts'

/** @throws CelEvaluationError if the value is not a bool */
export function truthOf(value: CelValue): boolean {
  if (typeof value === 'boolean') return value
  throw new CelEvaluationError('no such overload: a condition must be a bool')
}

/** @throws CelEvaluationError if the value is missing */
export function present(value: CelValue | undefined, key: string, problem = 'no such key'): CelValue {
  if (value === undefined) throw new CelEvaluationError(`${problem}: ${key.slice(0, 100)}`)
  return value
}

/**
 * Returns undefined if the field is missing, as in all values other than maps. @throws CelEvaluationError for a list
 */
export function readField(value: CelValue, name: string): CelValue | undefined {
  if (isList(value)) throw new CelEvaluationError(`no such overload: ${name} of a list`)
  return isMap(value) ? value.get(name) : undefined
}

/** Returns undefined if the index is out of range. @throws CelEvaluationError if the value has no such index */
export function readItem(value: CelValue, key: CelValue): CelValue | undefined {
  if (isList(value) && typeof key === 'bigint') return value[Number(key)]
  if (isMap(value) && typeof key === 'string') return value.get(key)
  throw new CelEvaluationError('no such overload: the value has no such index')
}

/** Reads from a value or from an optional one. The result is an optional. */
export function optionally(
  operand: Compiled,
  type: CelType,
  read: (value: CelValue, frame: Frame) => CelValue | undefined,
): Compiled {
  return {
    type: { kind: 'optional', value: type },
    run: frame => {
      const value = operand.run(frame)
      const inside = value instanceof Optional ? value.value : value
      return new Optional(inside === undefined ? undefined : read(inside, frame))
    },
  }
}

/** Returns the decisive value if an item has it, which absorbs the errors of others. */
export function quantified<T>(
  items: Iterable<T>,
  test: (item: T) => boolean,
  { budget }: Frame,
  decisive: boolean,
): boolean {
  let failure: CelEvaluationError | undefined
  for (const item of items) {
    try {
      if (test(item) === decisive) return decisive
    } catch (error) {
      if (!(error instanceof CelEvaluationError)) throw error
      budget.spend(stepCosts.error)
      failure ??= error
    }
  }
  if (failure !== undefined) throw failure
  return !decisive
}
