import {
  defineModel,
  escapeSelectorValue,
  multiValueIndex,
  objectKey,
  singleValueIndex,
} from '@setpoint/controller-runtime/api'
import fc from 'fast-check'
import { IndexSet } from '../../apiserver/src/model/index-set.ts'

/**
 * The oracle of list queries: random objects, writes and queries, and the answer got the plain way, by filtering and
 * sorting the objects themselves. For tests only.
 */

/** An object as the oracle knows it. */
export interface Gadget {
  name: string
  /** Of a namespaced kind only. */
  namespace?: string
  /** Stands for its creation, and `deleted` for its deletion, unless the server's own timestamps are given. */
  created: number
  creationTimestamp?: string
  deletionTimestamp?: string
  deleted: boolean
  labels: Record<string, string>
  owner: string | undefined
  n: string | undefined
  tags: string[]
}

export const Gadget = defineModel({
  group: 'demo.example.com',
  version: 'v1',
  kind: 'Gadget',
  singular: 'gadget',
  plural: 'gadgets',
  schema: {
    spec: {
      type: 'object',
      properties: {
        owner: { type: 'string' },
        n: { type: 'string' },
        tags: { type: 'array', items: { type: 'string' } },
      },
    },
  },
  indexes: [
    singleValueIndex({ name: 'spec.owner', indexFunc: ({ spec }) => spec.owner }),
    singleValueIndex({ name: 'spec.n', order: 'DESC', indexFunc: ({ spec }) => spec.n }),
    multiValueIndex({ name: 'spec.tags', indexFunc: ({ spec }) => spec.tags ?? [] }),
  ],
})
export const indexes = new IndexSet(Gadget)
/** The same kind, namespaced. */
export const namespacedIndexes = new IndexSet({ ...Gadget, scope: 'Namespaced' })

export const timestamp = (n: number) => new Date(Date.UTC(2024, 0, 1) + n * 1000).toISOString()

// The plain way: filter and sort the objects themselves, by the words of the contract.

export interface TermText {
  dialect: 'label' | 'field'
  key: string
  operator:
    | '='
    | '=='
    | '!='
    | 'in'
    | 'notin'
    | '=()'
    | '!=()'
    | 'exists'
    | 'absent'
    | '<'
    | '<='
    | '>'
    | '>='
  values: string[]
}

export interface SortText {
  field: string
  direction: 'asc' | 'desc' | undefined
}

function valuesOf(gadget: Gadget, { dialect, key }: { dialect: string; key: string }): string[] {
  const optional = (value: string | undefined) => (value === undefined ? [] : [value])
  if (dialect === 'label') return optional(new Map(Object.entries(gadget.labels)).get(key))
  switch (key) {
    case 'metadata.name':
      return [gadget.name]
    case 'metadata.namespace':
      return optional(gadget.namespace)
    case 'metadata.creationTimestamp':
      return [gadget.creationTimestamp ?? timestamp(gadget.created)]
    case 'metadata.deletionTimestamp':
      return optional(gadget.deletionTimestamp ?? (gadget.deleted ? timestamp(0) : undefined))
    case 'metadata.labels':
      return Object.entries(gadget.labels).map(([key, value]) => `${key}=${value}`)
    case 'spec.owner':
      return optional(gadget.owner)
    case 'spec.n':
      return optional(gadget.n)
    default:
      return gadget.tags
  }
}

export function satisfies(gadget: Gadget, term: TermText): boolean {
  const values = valuesOf(gadget, term)
  const any = values.some(value => term.values.includes(value))
  const [bound = ''] = term.values
  if (term.dialect === 'label' && (term.operator === '<' || term.operator === '>')) {
    const numbers = values.filter(value => /^\d+$/.test(value)).map(Number)
    return numbers.some(number => (term.operator === '<' ? number < Number(bound) : number > Number(bound)))
  }
  switch (term.operator) {
    case 'exists':
      return values.length > 0
    case 'absent':
      return values.length === 0
    case '!=':
    case '!=()':
    case 'notin':
      return !any
    case '<':
      return values.some(value => byCodePoint(value, bound) < 0)
    case '<=':
      return values.some(value => byCodePoint(value, bound) <= 0)
    case '>':
      return values.some(value => byCodePoint(value, bound) > 0)
    case '>=':
      return values.some(value => byCodePoint(value, bound) >= 0)
    default:
      return any
  }
}

/** UTF-8 keeps the order of code points. */
export const byCodePoint = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b))

export function inOrder(gadgets: Gadget[], sort: SortText[]): Gadget[] {
  const keys = sort.length === 0 ? [{ field: 'metadata.creationTimestamp', direction: 'desc' }] : sort
  return [...gadgets].sort((left, right) => {
    for (const { field, direction = field === 'spec.n' ? 'desc' : 'asc' } of keys) {
      const pick = (gadget: Gadget) =>
        valuesOf(gadget, { dialect: 'field', key: field })
          .sort(byCodePoint)
          .at(direction === 'desc' ? -1 : 0)
      const [a, b] = [pick(left), pick(right)]
      if (a === b) continue
      if (a === undefined) return 1
      if (b === undefined) return -1
      return direction === 'desc' ? byCodePoint(b, a) : byCodePoint(a, b)
    }
    return byCodePoint(left.name, right.name) || byCodePoint(left.namespace ?? '', right.namespace ?? '')
  })
}

/** In the order of keys: chunks, and the initial events of a watch. */
export function byKey(gadgets: readonly Gadget[]): Gadget[] {
  return [...gadgets].sort((left, right) => byCodePoint(objectKey(left), objectKey(right)))
}

// Random objects, writes and queries.

const value = fc.constantFrom('a', 'b', 'c', '10', '9', '01', '\u{ffff}x', '\u{1f600}', 'x,(y)=!\\ z', ' s ')
const tag = fc.oneof({ weight: 5, arbitrary: value }, { weight: 1, arbitrary: fc.constant('') })
const labelKeys = ['app', 'tier', 'example.com/x', 'constructor']
const labelValue = fc.constantFrom('', 'web', 'db', 'w', '9', '10', '011')

export const names = (count: number) => fc.nat(count - 1).map(n => `g${n}`)

export const gadget = (count: number): fc.Arbitrary<Gadget> =>
  fc.record({
    name: names(count),
    created: fc.nat(6),
    deleted: fc.boolean(),
    labels: fc.dictionary(fc.constantFrom(...labelKeys), labelValue, { maxKeys: 4, noNullPrototype: true }),
    owner: fc.option(tag, { nil: undefined }),
    // Most objects share one value: the plans for common and rare values both get their turn.
    n: fc.oneof(
      { weight: 9, arbitrary: fc.constant('common') },
      { weight: 1, arbitrary: fc.option(value, { nil: undefined }) },
    ),
    tags: fc.uniqueArray(tag, { maxLength: 4 }),
  })

const labelOf = { dialect: fc.constant('label' as const), key: fc.constantFrom(...labelKeys, 'none') }
const labelTerm: fc.Arbitrary<TermText> = fc.oneof(
  fc.record({
    ...labelOf,
    operator: fc.constantFrom('=', '==', '!=', 'in', 'notin', 'exists', 'absent'),
    values: fc.array(fc.constantFrom('web', 'db', 'w', '10', 'nothing'), { minLength: 1, maxLength: 3 }),
  }),
  fc.record({
    ...labelOf,
    operator: fc.constantFrom('<', '>'),
    values: fc.tuple(fc.constantFrom('0', '9', '10', '012')),
  }),
)

const namespace = fc.constantFrom('a', 'a-b', 'b')

const fieldTermOf = (fields: readonly string[]): fc.Arbitrary<TermText> =>
  fc.constantFrom(...fields).chain(key =>
    fc.record({
      dialect: fc.constant('field' as const),
      key: fc.constant(key),
      operator: fc.oneof(
        fc.constantFrom<TermText['operator'][]>('=', '==', '!=', 'in', 'notin', '=()', '!=()'),
        fc.constantFrom<TermText['operator'][]>('<', '<=', '>', '>='),
      ),
      values: fc.array(
        key === 'metadata.name'
          ? names(12)
          : key === 'metadata.namespace'
            ? namespace
            : key === 'metadata.labels'
              ? fc.constantFrom('app=web', 'app=', 'tier=db')
              : key.startsWith('metadata')
                ? fc.nat(6).map(timestamp)
                : fc.oneof({ weight: 2, arbitrary: fc.constant('common') }, { weight: 5, arbitrary: value }),
        { minLength: 1, maxLength: 3 },
      ),
    }),
  )

/** Two comparisons of one field, which are one range if its index has single values. */
const rangeOf = (fieldTerm: fc.Arbitrary<TermText>) =>
  fc
    .tuple(
      fieldTerm,
      fc.constantFrom('>' as const, '>=' as const),
      fc.constantFrom('<' as const, '<=' as const),
    )
    .map(([term, lower, upper]): TermText[] => [
      { ...term, operator: lower },
      { ...term, operator: upper, values: term.values.slice(-1) },
    ])

const list = (operator: string) => ['in', 'notin', '=()', '!=()'].includes(operator)

/** A term with as many values as its operator takes, and its text. */
export function spell({ dialect, key, operator, values }: TermText): { term: TermText; text: string } {
  const used =
    operator === 'exists' || operator === 'absent' ? [] : list(operator) ? values : values.slice(0, 1)
  const term = { dialect, key, operator, values: used }
  const escaped = used.map(value => (dialect === 'field' ? escapeSelectorValue(value) : value))
  switch (operator) {
    case 'exists':
      return { term, text: key }
    case 'absent':
      return { term, text: `!${key}` }
    case 'in':
    case 'notin':
      return { term, text: `${key} ${operator} (${escaped.join(',')})` }
    case '=()':
    case '!=()':
      return { term, text: `${key}${operator.slice(0, -2)}(${escaped.join(',')})` }
    default:
      return { term, text: `${key}${operator}${escaped[0]}` }
  }
}

const queryOf = (fields: readonly string[], namespaces: fc.Arbitrary<string | undefined>) => {
  const fieldTerm = fieldTermOf(fields)
  return fc.record({
    /** The namespace in the path. */
    namespace: namespaces,
    terms: fc
      .array(fc.oneof(...[labelTerm, fieldTerm].map(term => term.map(one => [one])), rangeOf(fieldTerm)), {
        maxLength: 3,
      })
      .map(terms => terms.flat()),
    repeated: fc.boolean(),
    sort: fc.array(
      fc.record({
        field: fc.constantFrom(...fields),
        direction: fc.constantFrom('asc' as const, 'desc' as const, undefined),
      }),
      { maxLength: 3 },
    ),
    page: fc.option(fc.integer({ min: 1, max: 5 }), { nil: undefined }),
    size: fc.option(fc.integer({ min: 1, max: 12 }), { nil: undefined }),
    limit: fc.option(fc.integer({ min: 1, max: 12 }), { nil: undefined }),
  })
}
export const query = queryOf(indexes.names, fc.constant(undefined))
export type Query = typeof query extends fc.Arbitrary<infer T> ? T : never

export function parametersOf({ terms, repeated, sort, page, size }: Query): URLSearchParams {
  const parameters = new URLSearchParams()
  for (const dialect of ['label', 'field'] as const) {
    const texts = terms.filter(term => term.dialect === dialect).map(term => spell(term).text)
    if (repeated) for (const text of texts) parameters.append(`${dialect}Selector`, text)
    else if (texts.length > 0) parameters.set(`${dialect}Selector`, texts.join(','))
  }
  for (const { field, direction } of sort) {
    parameters.append('sort', direction === undefined ? field : `${field},${direction}`)
  }
  if (page !== undefined) parameters.set('page', String(page))
  if (size !== undefined) parameters.set('size', String(size))
  return parameters
}

export interface Step {
  put: Gadget[]
  /** The keys of objects. */
  remove: string[]
  query: Query
}

/** Steps over objects in namespaces. Several have the same name. */
export const namespacedStep = (count: number, writes: number): fc.Arbitrary<Step> =>
  fc.record({
    put: fc.array(
      fc.tuple(gadget(count), namespace).map(([each, place]) => ({ ...each, namespace: place })),
      { maxLength: writes, size: 'max' },
    ),
    remove: fc.array(
      fc.tuple(names(count), namespace).map(([name, place]) => objectKey({ namespace: place, name })),
      { maxLength: writes >> 2 },
    ),
    query: queryOf(namespacedIndexes.names, fc.option(namespace, { nil: undefined })),
  })

export const step = (count: number, writes: number): fc.Arbitrary<Step> =>
  fc.record({
    put: fc.array(gadget(count), { maxLength: writes, size: 'max' }),
    remove: fc.array(names(count), { maxLength: writes >> 2 }),
    query,
  })
