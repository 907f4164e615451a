import { type IndexSpec, multiValueIndex, singleValueIndex } from '@setpoint/controller-runtime/api'
import { compileJsonPath, compileJsonPaths, selectableField } from '@setpoint/controller-runtime/internal'
import { type Fields, recordOf, recordsOf, textOf } from '../kubernetes/index.ts'

/** The annotation with the indexes that Kubernetes has no field for. */
export const indexesAnnotation = 'setpoint.dev/indexes'

/** An entry of the annotation `setpoint.dev/indexes`, with its defaults. */
export interface DeclaredIndex {
  readonly name: string
  /** JSONPath. */
  readonly path: string
  readonly multi: boolean
  readonly unique: boolean
  readonly uniqueWithin: 'namespace' | undefined
  readonly order: 'ASC' | 'DESC'
}

/** Returns the name of a selectable field, as Kubernetes has it: the path without its first dot. */
export function selectableName(path: string): string {
  return path.replace(/^\./, '')
}

/** Returns the index of a selectable field. As in Kubernetes, an absent field has the value `''`. */
export function selectableIndex(path: string): IndexSpec {
  const read = compileJsonPath(path)
  return selectableField({ name: selectableName(path), indexFunc: object => textOfScalar(read(object)) })()
}

/** Returns the index that an entry of the annotation declares. An absent field has no value. */
export function declaredIndex({ name, path, multi, unique, uniqueWithin, order }: DeclaredIndex): IndexSpec {
  const options = { name, unique, order, ...(uniqueWithin !== undefined && { uniqueWithin }) }
  if (!multi) {
    const read = compileJsonPath(path)
    return singleValueIndex({ ...options, indexFunc: object => textOfScalar(read(object)) })()
  }
  const read = compileJsonPaths(path)
  return multiValueIndex({
    ...options,
    // A path may lead to a list, or to each of its items.
    indexFunc: object =>
      read(object)
        .flat()
        .flatMap(value => textOfScalar(value) ?? []),
  })()
}

function textOfScalar(value: unknown): string | undefined {
  if (typeof value === 'string') return value
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : undefined
}

/** Reads the annotation, which was checked when the definition was stored. */
export function readIndexes(definition: Fields): DeclaredIndex[] {
  const { annotations } = recordOf(recordOf(definition.metadata))
  const text = recordOf(annotations)[indexesAnnotation]
  const entries: unknown = typeof text === 'string' ? JSON.parse(text) : []
  return recordsOf(entries).map(({ name, path, multi, unique, uniqueWithin, order }) => ({
    name: textOf(name) || selectableName(textOf(path)),
    path: textOf(path),
    multi: multi === true,
    unique: unique === true,
    uniqueWithin: uniqueWithin === 'namespace' ? uniqueWithin : undefined,
    order: order === 'DESC' ? order : 'ASC',
  }))
}
