import {
  type ApiObject,
  errorMessage,
  type IndexSpec,
  type Model,
  type ObjectMeta,
} from '@setpoint/controller-runtime/api'
import { defaultIndexes } from '@setpoint/controller-runtime/internal'
import { thrownMessage } from './thrown-message.ts'

export const indexSetDefaults = Object.freeze({
  /**
   * Distinct lists of values (for labels: label sets) that objects share, for each index. Enough for phases, owners and
   * sets of tags, which repeat. A field of unique values gains nothing and costs this many map entries.
   */
  sharedValues: 4096,
  /** Characters of a shared list or label set. Longer ones rarely repeat, and would be kept in memory. */
  sharedLength: 256,
  /**
   * Lists created without sharing after sharing has hardly paid off. Then sharing is tried again, since the objects may
   * have changed. Without this, sharing took a tenth of the time to build a cache.
   */
  unsharedRun: 65_536,
})

/** The array of every object and index without values. */
export const noValues: readonly string[] = Object.freeze([])

const noLabels: Readonly<Record<string, string>> = Object.freeze({})

/** The object passed to index functions. It has no version, since values must be the same before and after a write. */
export type IndexedObject = Omit<ApiObject, 'metadata'> & {
  readonly metadata: Omit<ObjectMeta, 'version' | 'resourceVersion'>
}

/** An index function threw for one object, or returned something other than strings. */
export class IndexFunctionError extends Error {
  override readonly name = 'IndexFunctionError'
  /** Name of the index. */
  readonly index: string

  constructor(index: string, cause: unknown) {
    super(`index ${index}: ${errorMessage(cause)}`, { cause })
    this.index = index
  }
}

/**
 * All indexes of a model by position: the default ones, then the declared ones in their order. Objects with equal
 * content share their value arrays and labels, so that entries stay small.
 */
export class IndexSet {
  /** Positions of the indexes that every model has. */
  static readonly name = 0
  static readonly creationTimestamp = 1
  static readonly deletionTimestamp = 2
  static readonly labels = 3
  /** Only in the indexes of namespaced kinds. */
  static readonly namespace = 4

  /** True if the model declares indexes. Their functions may change the objects that they get. */
  readonly areDeclared: boolean
  /** True for namespaced kinds. Names are then unique within a namespace only. */
  readonly isNamespaced: boolean
  readonly specs: readonly IndexSpec<IndexedObject>[]
  /** Names for selectors and sorts, without aliases. */
  readonly names: readonly string[]
  /** Number of the indexes that are not declared. */
  readonly #defaults: number
  readonly #positions: ReadonlyMap<string, number>
  readonly #shared: readonly SharedValues[]
  readonly #isSensitive: boolean
  readonly #sharedLabels = new Shared<Readonly<Record<string, string>>>()

  /**
   * @param aliases further names of indexes in selectors and sorts, with the names that they stand for
   * @param hidden names of indexes that selectors and sorts do not know
   */
  constructor(
    {
      indexes,
      scope,
      sensitive = false,
    }: Pick<Model, 'indexes'> & Partial<Pick<Model, 'scope' | 'sensitive'>>,
    aliases: Readonly<Record<string, string>> = {},
    hidden: Iterable<string> = [],
  ) {
    this.areDeclared = indexes.length > 0
    this.isNamespaced = scope === 'Namespaced'
    this.#isSensitive = sensitive
    const defaults = defaultIndexes(scope)
    this.#defaults = defaults.length
    this.specs = Object.freeze([...defaults, ...indexes])
    const positions = new Map(this.specs.map(({ name }, position) => [name, position]))
    for (const [alias, name] of Object.entries(aliases)) {
      const position = positions.get(name)
      if (position !== undefined) positions.set(alias, position)
    }
    for (const name of hidden) positions.delete(name)
    this.#positions = positions
    this.names = Object.freeze(this.specs.flatMap(({ name }) => (positions.has(name) ? [name] : [])))
    this.#shared = this.specs.map(() => new Shared<readonly string[]>())
  }

  /** Returns the position of an index, or undefined if the model does not have it. */
  indexOf(fieldName: string): number | undefined {
    return this.#positions.get(fieldName)
  }

  /** Returns true for the position of an index that the model declares. */
  isDeclared(position: number): boolean {
    return position >= this.#defaults
  }

  /**
   * Returns the position of an index that is known to exist.
   * @throws RangeError if the model does not have it
   */
  positionOf(name: string): number {
    const position = this.#positions.get(name)
    if (position === undefined) throw new RangeError(`no index ${JSON.stringify(name)}`)
    return position
  }

  /**
   * Returns the index values of an object by position. The arrays may be shared and must not be changed.
   * @throws IndexFunctionError for the first index function that fails
   */
  valuesOf(object: IndexedObject): (readonly string[])[] {
    return this.specs.map((_, position) => this.#valuesAt(position, object))
  }

  /**
   * Same as `valuesOf`, but an index function that fails is reported as a problem, and the object has no values in that
   * index. Values that are not kept are not shared: computing them twice would count as repetition.
   */
  tryValuesOf(
    object: IndexedObject,
    { isKept = true }: { readonly isKept?: boolean } = {},
  ): {
    values: (readonly string[])[]
    problems: readonly { readonly index: string; readonly message: string }[]
  } {
    let problems: { index: string; message: string }[] | undefined
    const values = this.specs.map((spec, position) => {
      try {
        return isKept ? this.#valuesAt(position, object) : this.#freshValuesAt(position, object)
      } catch (error) {
        problems ??= []
        problems.push({
          index: spec.name,
          message: thrownMessage(error instanceof Error ? error.cause : error, this.#isSensitive),
        })
        return noValues
      }
    })
    return { values, problems: problems ?? noProblems }
  }

  /** Returns the values of the default indexes, which need the metadata only. All others are empty. */
  metadataValuesOf(object: IndexedObject): (readonly string[])[] {
    return this.specs.map((_, position) =>
      position < this.#defaults ? this.#valuesAt(position, object) : noValues,
    )
  }

  #valuesAt(position: number, object: IndexedObject): readonly string[] {
    return this.#share(position, this.#freshValuesAt(position, object))
  }

  #freshValuesAt(position: number, object: IndexedObject): readonly string[] {
    const spec = this.specs[position]
    if (spec === undefined) return noValues
    try {
      return spec.valuesOf(object)
    } catch (error) {
      throw new IndexFunctionError(spec.name, error)
    }
  }

  /** Returns the labels of an object. Objects with the same labels share the record, unless it is large. */
  labelsOf(object: IndexedObject): Readonly<Record<string, string>> {
    const { labels } = object.metadata
    if (labels === undefined) return noLabels
    const id = shortLabelsId(labels)
    if (id === '') return noLabels
    if (id !== undefined) return this.#sharedLabels.get(id, () => Object.freeze({ ...labels }))
    // A declared index function may change the object's own.
    return this.areDeclared ? { ...labels } : labels
  }

  #share(position: number, values: readonly string[]): readonly string[] {
    const shared = this.#shared[position]
    if (values.length === 0 || shared === undefined) return noValues
    const [first = ''] = values
    const make = () => (values.length === 1 ? [first] : values)
    const id = shortValuesId(values)
    return id === undefined ? make() : shared.get(id, make)
  }
}

const noProblems = Object.freeze([])

const separator = '\u0000'

type SharedValues = Shared<readonly string[]>

/** Shares equal items, up to a bound. Pauses sharing while items hardly repeat. */
class Shared<T> {
  #items = new Map<string, T>()
  /** Requests for items that exist already. */
  #repeats = 0
  /** Items still to be created without sharing. */
  #unshared = 0

  get(id: string, make: () => T): T {
    if (this.#unshared > 0) {
      this.#unshared--
      return make()
    }
    const known = this.#items.get(id)
    if (known !== undefined) {
      this.#repeats++
      return known
    }
    if (this.#items.size === indexSetDefaults.sharedValues) {
      if (this.#repeats < indexSetDefaults.sharedValues / 4) this.#unshared = indexSetDefaults.unsharedRun
      // Starting over costs one array for each common value. Tracking their use would cost time for every object.
      this.#items = new Map()
      this.#repeats = 0
    }
    const made = make()
    this.#items.set(id, made)
    return made
  }
}

/** Returns a text that only equal label sets have, empty for no labels; undefined if it is too long to be shared. */
function shortLabelsId(labels: Readonly<Record<string, string>>): string | undefined {
  let id = ''
  for (const key in labels) {
    id += `${key}=${labels[key]}${separator}`
    if (id.length > indexSetDefaults.sharedLength) return undefined
  }
  return id
}

/** Returns a text that only an equal list of values has; undefined if it is too long to be shared. */
function shortValuesId(values: readonly string[]): string | undefined {
  let id = ''
  for (const value of values) {
    id += values.length === 1 ? value : separator + value
    // The id is unambiguous only if no value contains the separator.
    if (id.length > indexSetDefaults.sharedLength || value.includes(separator)) return undefined
  }
  return id
}
