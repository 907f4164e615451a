import type { ApiObject } from '@setpoint/controller-runtime/api'
import { arrayOf, fieldsOf } from '../support/json.ts'

/** The subject of a watch: a path and query, and a predicate for the objects that it selects. */
export interface Subject {
  readonly title: string
  /** The path after the collection's: a name for a watch of one object. */
  readonly name?: string
  readonly labelSelector?: string
  readonly fieldSelector?: string
  readonly selects: (object: ApiObject) => boolean
}

/** Values for the writers, so that objects start and stop matching. */
export const vocabulary = Object.freeze({
  tiers: ['a', 'b', 'c'],
  colours: ['red', 'green', undefined],
  ranks: ['1', '2', '3', undefined],
  levels: ['low', 'high', undefined],
  tags: ['x', 'y', 'z'],
  /** Values of the unique index: few enough that some writes are refused for them. */
  codes: Array.from({ length: 150 }, (_, n) => `code-${n}`),
})

const label = (object: ApiObject, key: string) => object.metadata.labels?.[key]
const field = (object: ApiObject, key: string) => fieldsOf(object.spec)[key]
const tags = (object: ApiObject) => arrayOf(field(object, 'tags') ?? [])
const everything = () => true

function byLabel(labelSelector: string, selects: Subject['selects']): Subject {
  return { title: labelSelector, labelSelector, selects }
}

function byField(fieldSelector: string, selects: Subject['selects']): Subject {
  return { title: fieldSelector, fieldSelector, selects }
}

function byName(name: string): Subject {
  return { title: name, name, selects: ({ metadata }) => metadata.name === name }
}

/** Subjects with every type of selector. Watchers take them in turn. */
export function subjects(names: readonly string[]): Subject[] {
  const [first = '', second = '', third = ''] = names
  return [
    { title: 'everything', selects: everything },
    byLabel('tier=a', object => label(object, 'tier') === 'a'),
    byLabel('tier!=a', object => label(object, 'tier') !== 'a'),
    byLabel('tier in (a,b)', object => ['a', 'b'].includes(label(object, 'tier') ?? '')),
    byLabel('tier notin (a,b)', object => !['a', 'b'].includes(label(object, 'tier') ?? '')),
    byLabel('colour', object => label(object, 'colour') !== undefined),
    byLabel('!colour', object => label(object, 'colour') === undefined),
    byField('spec.rank=1', object => field(object, 'rank') === '1'),
    byField('spec.rank!=1', object => field(object, 'rank') !== '1'),
    byField('spec.rank in (1,2)', object => ['1', '2'].includes(String(field(object, 'rank')))),
    byField('spec.level notin (low)', object => field(object, 'level') !== 'low'),
    byField('spec.tags=x', object => tags(object).includes('x')),
    byField(`metadata.name=${first}`, ({ metadata }) => metadata.name === first),
    byField('metadata.labels=tier\\=b', object => label(object, 'tier') === 'b'),
    byName(second),
    byName(third),
    {
      title: 'tier=c and spec.tags=y',
      labelSelector: 'tier=c',
      fieldSelector: 'spec.tags=y',
      selects: object => label(object, 'tier') === 'c' && tags(object).includes('y'),
    },
  ]
}

/** Returns the path and query of a watch or list of a subject. */
export function addressOf(collection: string, { name, labelSelector, fieldSelector }: Subject): string {
  const query = new URLSearchParams()
  if (labelSelector !== undefined) query.set('labelSelector', labelSelector)
  if (fieldSelector !== undefined) query.set('fieldSelector', fieldSelector)
  const text = query.toString()
  return `${collection}${name === undefined ? '' : `/${name}`}${text === '' ? '' : `?${text}`}`
}
