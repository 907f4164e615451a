import { Quantity, quantityOf } from '../quantity.ts'
import { addressFunctions, addressMethods, addressTexts } from './address-functions.ts'
import { authorizationFunctions } from './authorization-functions.ts'
import { stepCosts } from './budget.ts'
import { CelEvaluationError } from './errors.ts'
import { formatFunctions, formatMethods } from './format-functions.ts'
import { listFunctions, setFunctions } from './lists.ts'
import { Opaque } from './opaque.ts'
import { checkedInt } from './operators.ts'
import { type Overload, type OverloadTable, overload } from './overloads.ts'
import { semverFunctions, semverMethods } from './semver-functions.ts'
import { stringFunctions } from './strings.ts'
import { type DatePart, Duration, Timestamp } from './time.ts'
import { bool, type CelType, dyn, int, isCompatible, joined, listOf, string } from './types.ts'
import { Url } from './url.ts'
import { type CelValue, isList, Optional, TypeValue } from './values.ts'

const double: CelType = { kind: 'double' }
const duration: CelType = { kind: 'duration' }
const timestamp: CelType = { kind: 'timestamp' }
const quantity: CelType = { kind: 'quantity' }
const url: CelType = { kind: 'url' }

/** The names that are types, with the values that `type(x)` returns for them. */
export const typeNames: ReadonlyMap<string, TypeValue> = new Map(
  ['bool', 'int', 'double', 'string', 'bytes', 'list', 'map', 'null_type', 'type'].map(name => [
    name,
    new TypeValue(name),
  ]),
)

function typeNameOf(value: CelValue): string {
  switch (typeof value) {
    case 'bigint':
      return 'int'
    case 'number':
      return 'double'
    case 'boolean':
      return 'bool'
    case 'string':
      return 'string'
  }
  if (value === null) return 'null_type'
  if (isList(value)) return 'list'
  if (value instanceof Map) return 'map'
  if (value instanceof Uint8Array) return 'bytes'
  if (value instanceof TypeValue) return 'type'
  return value instanceof Opaque ? value.typeName : value.constructor.name
}

/** Returns the text that `string(x)` and formats have for a double, as Go writes it. */
function doubleText(value: number): string {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? 'NaN' : value > 0 ? '+Inf' : '-Inf'
  return String(value)
}

function parseInt64(text: string): bigint {
  if (text.length > 20 || !/^[+-]?\d+$/.test(text)) throw new CelEvaluationError(`cannot convert to int`)
  return checkedInt(BigInt(text))
}

function parseDouble(text: string): number {
  if (!/^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/.test(text))
    throw new CelEvaluationError('cannot convert to double')
  return Number(text)
}

function toQuantity(text: string): Quantity {
  const quantity = Quantity.parse(text)
  if (quantity === undefined)
    throw new CelEvaluationError(`${JSON.stringify(text.slice(0, 100))} is not a quantity, such as 500m`)
  return quantity
}

function truncate(value: number): bigint {
  if (!Number.isFinite(value)) throw new CelEvaluationError('integer overflow')
  return checkedInt(BigInt(Math.trunc(value)))
}

const truths: Readonly<Record<string, boolean>> = {
  ...{ true: true, True: true, TRUE: true, t: true, 1: true },
  ...{ false: false, False: false, FALSE: false, f: false, 0: false },
}

function parseBool(text: string): boolean {
  const value = Object.hasOwn(truths, text) ? truths[text] : undefined
  if (value === undefined) throw new CelEvaluationError('cannot convert to bool')
  return value
}

const utf8 = new TextDecoder('utf-8', { fatal: true })

function decodeUtf8(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes)
  } catch {
    throw new CelEvaluationError('the bytes are not UTF-8')
  }
}

/** Overloads for a timestamp, with and without a time zone. */
function dateMethod(part: DatePart, shift = 0): Overload[] {
  return [
    overload(['timestamp'], int, ([time]) => BigInt(time.part(part) + shift)),
    overload(['timestamp', 'string'], int, ([time, zone], budget) => {
      budget.spend(stepCosts.timeZone)
      return BigInt(time.part(part, zone) + shift)
    }),
  ]
}

function durationMethod(nanos: bigint): Overload {
  return overload(['duration'], int, ([value]) => value.nanos / nanos)
}

const conversions: OverloadTable = {
  dyn: [overload(['dyn'], dyn, ([value]) => value)],
  type: [
    overload(
      ['dyn'],
      { kind: 'type' },
      ([value]) => typeNames.get(typeNameOf(value)) ?? new TypeValue(typeNameOf(value)),
    ),
  ],
  bool: [
    overload(['bool'], bool, ([value]) => value),
    overload(['string'], bool, ([text]) => parseBool(text)),
  ],
  int: [
    overload(['int'], int, ([value]) => value),
    overload(['double'], int, ([value]) => truncate(value)),
    overload(['string'], int, ([text]) => parseInt64(text)),
    overload(
      ['timestamp'],
      int,
      ([time]) => (time.nanos - (((time.nanos % second) + second) % second)) / second,
    ),
  ],
  double: [
    overload(['double'], double, ([value]) => value),
    overload(['int'], double, ([value]) => Number(value)),
    overload(['string'], double, ([text]) => parseDouble(text)),
  ],
  string: [
    overload(['string'], string, ([value]) => value),
    overload(['int'], string, ([value]) => String(value)),
    overload(['double'], string, ([value]) => doubleText(value)),
    overload(['bool'], string, ([value]) => String(value)),
    overload(['bytes'], string, ([value]) => decodeUtf8(value)),
    overload(['timestamp'], string, ([value]) => value.toString()),
    overload(['duration'], string, ([value]) => value.toString()),
    ...addressTexts,
  ],
  bytes: [
    overload(['bytes'], { kind: 'bytes' }, ([value]) => value),
    overload(['string'], { kind: 'bytes' }, ([text]) => Buffer.from(text)),
  ],
  timestamp: [
    overload(['timestamp'], timestamp, ([value]) => value),
    overload(['string'], timestamp, ([text]) => Timestamp.parse(text)),
    overload(['int'], timestamp, ([seconds]) => new Timestamp(seconds * second)),
  ],
  duration: [
    overload(['duration'], duration, ([value]) => value),
    overload(['string'], duration, ([text]) => Duration.parse(text)),
  ],
  quantity: [overload(['string'], quantity, ([text]) => toQuantity(text))],
  isQuantity: [overload(['string'], bool, ([text]) => Quantity.parse(text) !== undefined)],
  url: [overload(['string'], url, ([text]) => Url.parse(text))],
  isURL: [overload(['string'], bool, ([text]) => Url.read(text) !== undefined)],
}

const second = 1_000_000_000n

/** The functions: `size(x)`, conversions. */
export const functions: OverloadTable = {
  ...conversions,
  ...addressFunctions,
  ...semverFunctions,
  ...formatFunctions,
  ...setFunctions,
  matches: stringFunctions.matches ?? [],
  size: [
    overload(['string'], int, ([text]) => BigInt(codePointsOf(text))),
    overload(['bytes'], int, ([bytes]) => BigInt(bytes.length)),
    overload(['list'], int, ([list]) => BigInt(list.length)),
    overload(['map'], int, ([map]) => BigInt(map.size)),
  ],
  'optional.of': [
    overload(
      ['dyn'],
      ([type = dyn]) => ({ kind: 'optional', value: type }),
      ([value]) => new Optional(value),
    ),
  ],
  'optional.none': [overload([], { kind: 'optional', value: dyn }, () => new Optional(undefined))],
}

function codePointsOf(text: string): number {
  let count = 0
  for (const _ of text) count++
  return count
}

/** The type inside an optional. */
function insideOf([type = dyn]: readonly CelType[]): CelType {
  return type.kind === 'optional' ? type.value : dyn
}

/** The methods: `x.size()`, `x.startsWith(y)`. */
export const methods: OverloadTable = {
  ...stringFunctions,
  ...listFunctions,
  ...authorizationFunctions,
  ...addressMethods,
  ...formatMethods,
  ...semverMethods,
  // Strings and lists both have these two.
  indexOf: [...(stringFunctions.indexOf ?? []), ...(listFunctions.indexOf ?? [])],
  lastIndexOf: [...(stringFunctions.lastIndexOf ?? []), ...(listFunctions.lastIndexOf ?? [])],
  size: functions.size ?? [],
  getFullYear: dateMethod('year'),
  getMonth: dateMethod('month'),
  getDate: dateMethod('day'),
  getDayOfMonth: dateMethod('day', -1),
  getDayOfWeek: dateMethod('weekday'),
  getDayOfYear: dateMethod('yearDay'),
  getHours: [...dateMethod('hour'), durationMethod(3600n * second)],
  getMinutes: [...dateMethod('minute'), durationMethod(60n * second)],
  getSeconds: [...dateMethod('second'), durationMethod(second)],
  getMilliseconds: [
    overload(['timestamp'], int, ([time]) => BigInt(time.milliseconds)),
    durationMethod(1_000_000n),
  ],
  isLessThan: [
    overload(['quantity', 'quantity'], bool, ([a, b]) => a.nanos < b.nanos),
    ...(semverMethods.isLessThan ?? []),
  ],
  isGreaterThan: [
    overload(['quantity', 'quantity'], bool, ([a, b]) => a.nanos > b.nanos),
    ...(semverMethods.isGreaterThan ?? []),
  ],
  compareTo: [
    overload(['quantity', 'quantity'], int, ([a, b]) =>
      a.nanos < b.nanos ? -1n : a.nanos > b.nanos ? 1n : 0n,
    ),
    ...(semverMethods.compareTo ?? []),
  ],
  sign: [overload(['quantity'], int, ([{ nanos }]) => (nanos < 0n ? -1n : nanos > 0n ? 1n : 0n))],
  isInteger: [overload(['quantity'], bool, ([value]) => value.isInteger)],
  asInteger: [
    overload(['quantity'], int, ([value]) => {
      if (value.isInteger) return value.whole
      throw new CelEvaluationError('the quantity is not an integer')
    }),
  ],
  asApproximateFloat: [overload(['quantity'], double, ([{ nanos }]) => Number(nanos) / 1e9)],
  add: [
    overload(['quantity', 'quantity'], quantity, ([a, b]) => new Quantity(a.nanos + b.nanos)),
    overload(['quantity', 'int'], quantity, ([a, b]) => new Quantity(a.nanos + quantityOf(b).nanos)),
  ],
  sub: [
    overload(['quantity', 'quantity'], quantity, ([a, b]) => new Quantity(a.nanos - b.nanos)),
    overload(['quantity', 'int'], quantity, ([a, b]) => new Quantity(a.nanos - quantityOf(b).nanos)),
  ],
  getScheme: [overload(['url'], string, ([value]) => value.scheme)],
  getHost: [overload(['url'], string, ([value]) => value.host)],
  getHostname: [overload(['url'], string, ([value]) => value.hostname)],
  getPort: [overload(['url'], string, ([value]) => value.port)],
  getEscapedPath: [overload(['url'], string, ([value]) => value.path)],
  getQuery: [
    overload(['url'], { kind: 'map', value: listOf(string) }, ([value]) => {
      const query = new Map<string, string[]>()
      for (const [name, text] of new URLSearchParams(value.query))
        query.set(name, [...(query.get(name) ?? []), text])
      return query
    }),
  ],
  hasValue: [overload(['optional'], bool, ([{ value }]) => value !== undefined)],
  value: [
    overload(['optional'], insideOf, ([{ value }]) => {
      if (value !== undefined) return value
      throw new CelEvaluationError('optional.none() has no value')
    }),
  ],
  orValue: [
    overload(
      ['optional', 'dyn'],
      types => {
        const [, other = dyn] = types
        const inside = insideOf(types)
        return isCompatible(inside, other) ? joined(inside, other) : undefined
      },
      ([{ value }, other]) => value ?? other,
    ),
  ],
  or: [
    overload(
      ['optional', 'optional'],
      ([type = dyn]) => type,
      ([a, b]) => (a.value === undefined ? b : a),
    ),
  ],
}
