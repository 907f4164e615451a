import { createHash } from 'node:crypto'
import { type IndexSpec, multiValueIndex, singleValueIndex } from '@setpoint/controller-runtime/api'
import { compileJsonPath, compileJsonPaths, selectableField } from '@setpoint/controller-runtime/internal'
import { recordOf } from '../kubernetes/index.ts'
import { type DeclaredIndex, indexesAnnotation, parseIndexes } from './kind/index.ts'
import type { StoredDefinition } from './stored-definition.ts'

/** Returns the name of a selectable field, as Kubernetes has it: the path without its first dot. */
export function selectableName(path: string): string {
  return path.replace(/^\./, '')
}

/**
 * Returns the index of a selectable field. As in Kubernetes, an absent field has the value `''`.
 * @param shape stands for the shape of the objects that are indexed
 */
export function selectableIndex(path: string, shape: string): IndexSpec {
  const read = compileJsonPath(path)
  const name = selectableName(path)
  const spec = selectableField({ name, indexFunc: object => textOfScalar(read(object)) })()
  return { ...spec, source: sourceOf(path, false, shape) }
}

/** Returns the index that an entry of the annotation declares. An absent field has no value. */
export function declaredIndex(declared: DeclaredIndex, shape: string): IndexSpec {
  return { ...specOf(declared), source: sourceOf(declared.path, declared.multi, shape) }
}

function sourceOf(...parts: readonly [path: string, multi: boolean, shape: string]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 8)
}

function specOf({ name, path, multi, unique, uniqueWithin, order }: DeclaredIndex): IndexSpec {
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

/** Returns the indexes of the annotation, which was checked when the definition was stored. */
export function readIndexes({ object, isNamespaced, versions }: StoredDefinition): readonly DeclaredIndex[] {
  const { annotations } = recordOf(object.metadata)
  const { [indexesAnnotation]: text } = recordOf(annotations)
  const selectable = versions.flatMap(version => version.selectable)
  const read = parseIndexes(typeof text === 'string' ? text : undefined, { isNamespaced, selectable })
  return 'indexes' in read ? read.indexes : []
}
