import { checkDnsLabel, checkSubdomain } from './names.ts'
import type { ApiObject } from './object.ts'
import type { FromSchema, Schema } from './schema.ts'

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

/** One index of a model, as `singleValueIndex` and `multiValueIndex` make it. */
export interface IndexSpec<T = ApiObject> extends Required<IndexBase> {
  readonly multiple: boolean
  /** The index values of an object; none is an empty array. Throws what the author's function throws. */
  // Method syntax on purpose: an index over a specific object type is usable where any object's index is expected.
  valuesOf(object: T): readonly string[]
}

/** An index function answered something other than strings. */
export class IndexValueError extends TypeError {
  override readonly name = 'IndexValueError'
}

/** An index of at most one value for each object. `indexFunc` answers a string, or undefined for none. */
export function singleValueIndex<T = ApiObject>(
  options: IndexBase & { indexFunc(object: T): string | undefined },
): IndexSpec<T> {
  const { indexFunc, ...rest } = options
  return Object.freeze({
    ...indexDefaults(rest),
    multiple: false,
    valuesOf(object: T): readonly string[] {
      const value: unknown = indexFunc(object)
      if (value === undefined) return []
      if (typeof value !== 'string') {
        throw new IndexValueError(`indexFunc must return a string or undefined, returned ${describe(value)}`)
      }
      return [value]
    },
  })
}

/** An index of several values for each object, such as tags. `indexFunc` answers an array of strings; repetitions count once. */
export function multiValueIndex<T = ApiObject>(
  options: IndexBase & { indexFunc(object: T): readonly string[] },
): IndexSpec<T> {
  const { indexFunc, ...rest } = options
  return Object.freeze({
    ...indexDefaults(rest),
    multiple: true,
    valuesOf(object: T): readonly string[] {
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
    },
  })
}

function indexDefaults({ name, order = 'ASC', unique = false, version = 1 }: IndexBase) {
  return { name, order, unique, version }
}

function describe(value: unknown): string {
  return value === null ? 'null' : Array.isArray(value) ? 'an array' : `a value of type ${typeof value}`
}

/** One column of the table in which tools show objects of a kind. */
export interface PrinterColumn {
  readonly name: string
  readonly type: 'string' | 'integer' | 'number' | 'boolean' | 'date'
  /** Where the value is, for example `.spec.email`. */
  readonly jsonPath: string
  readonly description?: string
  /** Above 0: shown in wide output only. */
  readonly priority?: number
}

/** What a model's author writes. Content beyond `spec` and `status` is not part of an object. */
export interface ModelDeclaration<
  SpecSchema extends Schema = Schema,
  StatusSchema extends Schema = Schema,
  T = ApiObject<FromSchema<SpecSchema>, FromSchema<StatusSchema>>,
> {
  readonly group: string
  readonly version: string
  readonly kind: string
  readonly singular: string
  readonly plural: string
  readonly schema: { readonly spec: SpecSchema; readonly status?: StatusSchema }
  readonly subresources?: { readonly status?: boolean }
  /**
   * An array, or a function that makes one out of factories typed with this model's objects: in TypeScript the
   * latter checks what index functions read, as in `indexes: on => [on.single({ name, indexFunc: g => g.spec.n })]`.
   */
  readonly indexes?: readonly IndexSpec<T>[] | ((on: IndexFactories<T>) => readonly IndexSpec<T>[])
  readonly printerColumns?: readonly PrinterColumn[]
}

/** `singleValueIndex` and `multiValueIndex`, typed for the objects of one model. */
export interface IndexFactories<T> {
  single(options: Parameters<typeof singleValueIndex<T>>[0]): IndexSpec<T>
  multi(options: Parameters<typeof multiValueIndex<T>>[0]): IndexSpec<T>
}

/** A declared resource kind. `T` is the type of its objects. */
export interface Model<T extends ApiObject = ApiObject> {
  readonly group: string
  readonly version: string
  readonly kind: string
  readonly singular: string
  readonly plural: string
  /** `<group>/<version>` */
  readonly apiVersion: string
  readonly schema: { readonly spec: Schema; readonly status?: Schema }
  readonly subresources: { readonly status: boolean }
  readonly indexes: readonly IndexSpec<T>[]
  readonly printerColumns: readonly PrinterColumn[]
}

/** The object type of a model: `ObjectOf<typeof Gadget>`. */
export type ObjectOf<M> = M extends Model<infer T> ? T : never

/** Indexes that every model has without declaring them. */
export const defaultIndexNames = Object.freeze([
  'metadata.name',
  'metadata.creationTimestamp',
  'metadata.deletionTimestamp',
  'metadata.labels',
] as const)

/** A model's declaration breaks the rules; the message lists every problem. */
export class ModelError extends Error {
  override readonly name = 'ModelError'
}

/**
 * Declares a resource kind. The types of `spec` and `status` follow from the schema.
 * @throws ModelError naming every broken rule of the specification's 2.1 and 2.5.
 */
export function defineModel<
  const SpecSchema extends Schema,
  const StatusSchema extends Schema = { type: 'object' },
>(
  declaration: ModelDeclaration<SpecSchema, StatusSchema>,
): Model<ApiObject<FromSchema<SpecSchema>, FromSchema<StatusSchema>>> {
  const given = declaration.indexes ?? []
  const indexes =
    typeof given === 'function' ? given({ single: singleValueIndex, multi: multiValueIndex }) : given
  const problems = problemsOf(declaration, indexes)
  if (problems.length > 0) {
    throw new ModelError(
      `model ${declaration.kind ?? '?'} (${declaration.group ?? '?'}): ${problems.join('; ')}`,
    )
  }
  const { group, version, kind, singular, plural, schema, subresources, printerColumns = [] } = declaration
  return Object.freeze({
    group,
    version,
    kind,
    singular,
    plural,
    apiVersion: `${group}/${version}`,
    schema,
    subresources: { status: subresources?.status ?? false },
    indexes: Object.freeze([...indexes]),
    printerColumns: Object.freeze([...printerColumns]),
  })
}

function problemsOf(
  declaration: Omit<ModelDeclaration, 'indexes'>,
  indexes: readonly IndexSpec<never>[],
): string[] {
  const problems: string[] = []
  const text = (
    field: 'group' | 'version' | 'kind' | 'singular' | 'plural',
    check: (value: string) => string | undefined,
  ) => {
    const value: unknown = declaration[field]
    const problem = typeof value === 'string' ? check(value) : 'must be a string'
    if (problem !== undefined) problems.push(`${field} ${problem}`)
  }
  // The empty group is reserved rather than malformed: the server refuses it, with the reserved domain.
  text('group', group => (group === '' ? undefined : checkSubdomain(group)))
  text('version', checkDnsLabel)
  text('kind', kind =>
    /^[A-Z][A-Za-z0-9]{0,62}$/.test(kind) ? undefined : 'must be CamelCase, at most 63 letters and digits',
  )
  text('singular', checkDnsLabel)
  text('plural', checkDnsLabel)
  const spec: unknown = declaration.schema?.spec
  if (typeof spec !== 'object' || spec === null) problems.push('schema.spec must be an OpenAPI v3 schema')
  const names = new Set<string>(defaultIndexNames)
  for (const index of indexes) {
    if (typeof index?.valuesOf !== 'function') {
      problems.push('indexes must be made by singleValueIndex or multiValueIndex')
    } else if (typeof index.name !== 'string') {
      problems.push('every index must have a name')
    } else if (!/^[A-Za-z0-9]([-A-Za-z0-9_./]{0,251}[A-Za-z0-9])?$/.test(index.name)) {
      problems.push(
        `index name ${JSON.stringify(index.name)} must consist of letters, digits, '.', '-', '_' and '/'`,
      )
    } else if (names.has(index.name)) {
      problems.push(`index name ${JSON.stringify(index.name)} is used twice or is one that every model has`)
    } else if (index.order !== 'ASC' && index.order !== 'DESC') {
      problems.push(`index ${index.name}: order must be ASC or DESC`)
    } else if (!Number.isSafeInteger(index.version) || index.version < 1) {
      problems.push(`index ${index.name}: version must be an integer from 1`)
    }
    if (typeof index?.name === 'string') names.add(index.name)
  }
  return problems
}
