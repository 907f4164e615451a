import { CelEvaluationError } from './errors.ts'
import { type OverloadTable, overload } from './overloads.ts'
import { Duration, Timestamp } from './time.ts'
import { bool, type CelType, dyn, int, isCompatible, itemOf, joined, string } from './types.ts'
import { compare, concatenate, equals } from './values.ts'

const double: CelType = { kind: 'double' }
const duration: CelType = { kind: 'duration' }
const timestamp: CelType = { kind: 'timestamp' }

/** @throws CelEvaluationError if the integer has more than 64 bits */
export function checkedInt(value: bigint): bigint {
  if (BigInt.asIntN(64, value) === value) return value
  throw new CelEvaluationError('integer overflow')
}

function checkedDivisor(divisor: bigint): bigint {
  if (divisor === 0n) throw new CelEvaluationError('division by zero')
  return divisor
}

/** Kinds whose values have an order. int and double also compare with each other. */
const ordered = ['bool', 'int', 'double', 'string', 'bytes', 'timestamp', 'duration'] as const

function comparison(holds: (order: number) => boolean) {
  return [
    ...ordered.map(kind => overload([kind, kind], bool, ([a, b]) => holds(compare(a, b)))),
    overload(['int', 'double'], bool, ([a, b]) => holds(compare(a, b))),
    overload(['double', 'int'], bool, ([a, b]) => holds(compare(a, b))),
  ]
}

/** The operators but `&&`, `||`, `?:`, `==`, `!=`, which treat their operands in their own way. */
export const operators: OverloadTable = {
  '+': [
    overload(['int', 'int'], int, ([a, b]) => checkedInt(a + b)),
    overload(['double', 'double'], double, ([a, b]) => a + b),
    overload(['string', 'string'], string, ([a, b]) => a + b),
    overload(['bytes', 'bytes'], { kind: 'bytes' }, ([a, b]) => Buffer.concat([a, b])),
    overload(
      ['list', 'list'],
      ([a = dyn, b = dyn]) => (isCompatible(itemOf(a), itemOf(b)) ? joined(a, b) : undefined),
      ([a, b], budget) => concatenate(a, b, budget),
    ),
    overload(['duration', 'duration'], duration, ([a, b]) => new Duration(a.nanos + b.nanos)),
    overload(['timestamp', 'duration'], timestamp, ([a, b]) => new Timestamp(a.nanos + b.nanos)),
    overload(['duration', 'timestamp'], timestamp, ([a, b]) => new Timestamp(a.nanos + b.nanos)),
  ],
  '-': [
    overload(['int', 'int'], int, ([a, b]) => checkedInt(a - b)),
    overload(['double', 'double'], double, ([a, b]) => a - b),
    overload(['duration', 'duration'], duration, ([a, b]) => new Duration(a.nanos - b.nanos)),
    overload(['timestamp', 'duration'], timestamp, ([a, b]) => new Timestamp(a.nanos - b.nanos)),
    overload(['timestamp', 'timestamp'], duration, ([a, b]) => new Duration(a.nanos - b.nanos)),
  ],
  '*': [
    overload(['int', 'int'], int, ([a, b]) => checkedInt(a * b)),
    overload(['double', 'double'], double, ([a, b]) => a * b),
  ],
  '/': [
    overload(['int', 'int'], int, ([a, b]) => checkedInt(a / checkedDivisor(b))),
    overload(['double', 'double'], double, ([a, b]) => a / b),
  ],
  '%': [overload(['int', 'int'], int, ([a, b]) => a % checkedDivisor(b))],
  '<': comparison(order => order < 0),
  '<=': comparison(order => order <= 0),
  '>': comparison(order => order > 0),
  '>=': comparison(order => order >= 0),
  in: [
    overload(
      ['dyn', 'list'],
      ([item = dyn, list]) => (isCompatible(item, itemOf(list)) ? bool : undefined),
      ([item, list], budget) => list.some(other => equals(item, other, budget)),
    ),
    overload(
      ['dyn', 'map'],
      ([key = dyn]) => (isCompatible(key, string) ? bool : undefined),
      ([key, map]) => map.has(key),
    ),
  ],
  '-_': [
    overload(['int'], int, ([value]) => checkedInt(-value)),
    overload(['double'], double, ([value]) => -value),
  ],
  '!_': [overload(['bool'], bool, ([value]) => !value)],
}
