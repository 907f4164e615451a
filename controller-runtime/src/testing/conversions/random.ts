/** Reproducible random values for generated objects. */
export interface SampleRandom {
  /** Returns an integer from `min` to `max`, both included. */
  integer(min: number, max: number): number
  boolean(): boolean
  /** @throws RangeError for an empty list */
  pick<T>(values: readonly T[]): T
  /** Returns a string of a length from `min` to `max`. */
  text(min: number, max: number): string
}

const alphabet = [...'abcxyzABC0189 -_./ä€😀']

/** The same seed gives the same values (mulberry32). */
export function seededRandom(seed: number): SampleRandom {
  let state = seed >>> 0
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  const integer = (min: number, max: number) => min + Math.floor(next() * (max - min + 1))
  const pick = <T>(values: readonly T[]): T => {
    const chosen = integer(0, values.length - 1)
    for (const [at, value] of values.entries()) if (at === chosen) return value
    throw new RangeError('pick: the list is empty')
  }
  return {
    integer,
    boolean: () => next() < 0.5,
    pick,
    text: (min, max) => Array.from({ length: integer(min, max) }, () => pick(alphabet)).join(''),
  }
}
