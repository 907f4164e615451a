import { defaultIndexNames, isRecord, type KeysOf, unknownKeys } from '@setpoint/controller-runtime/api'
import { compileJsonPath, echo, errorMessage } from '@setpoint/controller-runtime/internal'

/** The annotation of a definition with the indexes that `selectableFields` cannot declare. */
export const indexesAnnotation = 'setpoint.dev/indexes'

export const indexDefaults = Object.freeze({
  /** Indexes in the annotation. Every server keeps each of them for all objects of the kind. */
  maxIndexes: 64,
})

/** One index of the annotation. */
export interface DeclaredIndex {
  readonly name: string
  /** JSONPath of the values. */
  readonly path: string
  /** True if all values at the path count, not only the first. */
  readonly multi: boolean
  readonly unique: boolean
  readonly uniqueWithin: 'namespace' | undefined
  readonly order: 'ASC' | 'DESC'
}

/** What the indexes of a kind depend on besides the annotation. */
interface IndexedKind {
  readonly isNamespaced: boolean
  /** JSONPaths of the selectable fields of all versions. */
  readonly selectable: readonly string[]
}

/**
 * Reads the indexes that a definition declares in its annotation: none without one.
 * @returns the indexes, or what is wrong with them, a clause each
 */
export function parseIndexes(
  text: string | undefined,
  kind: IndexedKind,
): { readonly indexes: readonly DeclaredIndex[] } | { readonly problems: readonly string[] } {
  if (text === undefined) return { indexes: [] }
  const entries = parsed(text)
  if (typeof entries === 'string') return { problems: [entries] }
  const { maxIndexes } = indexDefaults
  if (entries.length > maxIndexes)
    return { problems: [`must have at most ${maxIndexes} indexes, has ${entries.length}`] }
  const reader = new IndexReader(kind)
  const indexes = entries.flatMap((entry, at) => reader.read(entry, `entry ${at}`) ?? [])
  return reader.problems.length > 0 ? { problems: reader.problems } : { indexes }
}

function parsed(text: string): readonly unknown[] | string {
  try {
    const value: unknown = JSON.parse(text)
    if (Array.isArray(value)) return value
  } catch (error) {
    return `must be a JSON list of indexes: ${echo(errorMessage(error))}`
  }
  return 'must be a JSON list of indexes, such as [{"path":".spec.tags","multi":true}]'
}

const keys: KeysOf<DeclaredIndex> = {
  name: true,
  path: true,
  multi: true,
  unique: true,
  uniqueWithin: true,
  order: true,
}

const indexName = /^[A-Za-z0-9](?:[-A-Za-z0-9_./]{0,251}[A-Za-z0-9])?$/

class IndexReader {
  readonly problems: string[] = []
  readonly #taken: Set<string>
  readonly #isNamespaced: boolean

  constructor({ isNamespaced, selectable }: IndexedKind) {
    this.#isNamespaced = isNamespaced
    const ofNamespaced = isNamespaced ? ['metadata.namespace'] : []
    this.#taken = new Set([...defaultIndexNames, ...ofNamespaced, ...selectable.map(path => path.slice(1))])
  }

  read(entry: unknown, place: string): DeclaredIndex | undefined {
    const before = this.problems.length
    const fail = (problem: string) => this.problems.push(`${place}: ${problem}`)
    if (!isRecord(entry)) {
      fail('an index must be an object with a path')
      return undefined
    }
    this.problems.push(...unknownKeys(entry, keys, place))
    const { path, multi = false, unique = false, uniqueWithin, order = 'ASC' } = entry
    const pathProblem = problemOfPath(path)
    if (pathProblem !== undefined) fail(`path ${pathProblem}`)
    const { name = typeof path === 'string' ? path.slice(1) : '' } = entry
    if (pathProblem === undefined || entry.name !== undefined)
      this.#checkName(name, entry.name === undefined, fail)
    if (typeof multi !== 'boolean') fail('multi must be true or false')
    if (typeof unique !== 'boolean') fail('unique must be true or false')
    if (order !== 'ASC' && order !== 'DESC') fail('order must be ASC or DESC')
    if (uniqueWithin !== undefined) {
      if (uniqueWithin !== 'namespace') fail("uniqueWithin must be 'namespace'")
      else if (unique !== true) fail('uniqueWithin needs unique: true')
      else if (!this.#isNamespaced) fail('uniqueWithin needs a kind of the scope Namespaced')
    }
    if (this.problems.length > before) return undefined
    return {
      name: String(name),
      path: String(path),
      multi: multi === true,
      unique: unique === true,
      uniqueWithin: uniqueWithin === 'namespace' ? uniqueWithin : undefined,
      order: order === 'DESC' ? order : 'ASC',
    }
  }

  #checkName(name: unknown, isDefault: boolean, fail: (problem: string) => void): void {
    if (typeof name !== 'string') fail('name must be a text')
    else if (!indexName.test(name))
      fail(
        isDefault
          ? 'it needs a name, because its path does not make one'
          : `name ${echo(JSON.stringify(name))} must consist of letters, digits, '.', '-', '_' and '/'`,
      )
    else if (this.#taken.has(name))
      fail(
        `name ${JSON.stringify(name)} is already in use: by another index, a selectable field or a default index`,
      )
    else this.#taken.add(name)
  }
}

function problemOfPath(path: unknown): string | undefined {
  if (typeof path !== 'string') return 'must be a JSONPath such as .spec.color'
  try {
    compileJsonPath(path)
    return undefined
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    return `${echo(JSON.stringify(path))} is not a JSONPath that can be indexed: ${error.message}`
  }
}
