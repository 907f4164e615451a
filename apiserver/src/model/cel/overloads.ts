import { Quantity } from '../quantity.ts'
import { Cidr, IpAddress } from './addresses.ts'
import { AccessDecision, Authorizer, GroupCheck, PathCheck, ResourceCheck } from './authorization.ts'
import type { Budget } from './budget.ts'
import { NamedFormat } from './named-format.ts'
import { Semver } from './semver.ts'
import { Duration, Timestamp } from './time.ts'
import type { CelType } from './types.ts'
import { Url } from './url.ts'
import {
  type CelList,
  type CelMap,
  type CelValue,
  isList,
  isMap,
  Optional,
  TypeValue,
  weightOf,
} from './values.ts'

/** The values that a parameter accepts. `strings` is a list of strings. */
interface ValueOf {
  dyn: CelValue
  null: null
  bool: boolean
  int: bigint
  double: number
  string: string
  bytes: Uint8Array
  list: CelList
  strings: readonly string[]
  map: CelMap
  timestamp: Timestamp
  duration: Duration
  quantity: Quantity
  url: Url
  type: TypeValue
  optional: Optional
  authorizer: Authorizer
  pathCheck: PathCheck
  groupCheck: GroupCheck
  resourceCheck: ResourceCheck
  decision: AccessDecision
  ip: IpAddress
  cidr: Cidr
  semver: Semver
  format: NamedFormat
}

type ParamKind = keyof ValueOf
type ValuesOf<P extends readonly ParamKind[]> = { readonly [I in keyof P]: ValueOf[P[I]] }

const guards: { readonly [K in ParamKind]: (value: CelValue) => value is ValueOf[K] } = {
  dyn: (_value): _value is CelValue => true,
  null: value => value === null,
  bool: value => typeof value === 'boolean',
  int: value => typeof value === 'bigint',
  double: value => typeof value === 'number',
  string: value => typeof value === 'string',
  bytes: value => value instanceof Uint8Array,
  list: isList,
  strings: (value): value is readonly string[] =>
    isList(value) && value.every(item => typeof item === 'string'),
  map: isMap,
  timestamp: value => value instanceof Timestamp,
  duration: value => value instanceof Duration,
  quantity: value => value instanceof Quantity,
  url: value => value instanceof Url,
  type: value => value instanceof TypeValue,
  optional: value => value instanceof Optional,
  authorizer: value => value instanceof Authorizer,
  pathCheck: value => value instanceof PathCheck,
  groupCheck: value => value instanceof GroupCheck,
  resourceCheck: value => value instanceof ResourceCheck,
  decision: value => value instanceof AccessDecision,
  ip: value => value instanceof IpAddress,
  cidr: value => value instanceof Cidr,
  semver: value => value instanceof Semver,
  format: value => value instanceof NamedFormat,
}

/** Returned by an overload for arguments of other types. */
export const mismatch = Symbol('mismatch')

/** One signature of a function or an operator. */
export interface Overload {
  readonly params: readonly ParamKind[]
  /** Returns undefined if the arguments do not go together. */
  resultOf(types: readonly CelType[]): CelType | undefined
  run(args: readonly CelValue[], budget: Budget): CelValue | typeof mismatch
}

/** The overloads of each function by name. The receiver of a method is its first argument. */
export type OverloadTable = Readonly<Record<string, readonly Overload[]>>

/** Declares an overload. Its steps grow with the size of its arguments and of its result. */
export function overload<const P extends readonly ParamKind[]>(
  params: P,
  result: CelType | ((types: readonly CelType[]) => CelType | undefined),
  implementation: (args: ValuesOf<P>, budget: Budget) => CelValue,
): Overload {
  return {
    params,
    resultOf: typeof result === 'function' ? result : () => result,
    run(args, budget) {
      for (const arg of args) budget.spend(1 + weightOf(arg))
      if (!areOf(params, args)) return mismatch
      const value = implementation(args, budget)
      budget.spend(weightOf(value))
      return value
    },
  }
}

function areOf<P extends readonly ParamKind[]>(
  params: P,
  args: readonly CelValue[],
): args is ValuesOf<P> & readonly CelValue[] {
  return (
    args.length === params.length &&
    params.every((kind, at) => {
      const arg = args[at]
      return arg !== undefined && guards[kind](arg)
    })
  )
}

/** Returns true if a value of the type can be an argument for the parameter. */
export function accepts(param: ParamKind, type: CelType): boolean {
  if (param === 'dyn' || type.kind === 'dyn') return true
  if (param !== 'strings') return param === type.kind
  return type.kind === 'list' && (type.item.kind === 'string' || type.item.kind === 'dyn')
}
