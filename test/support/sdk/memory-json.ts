import { ApiError } from '../../../controller-runtime/src/api/errors.ts'
import { isRecord } from '../../../controller-runtime/src/api/is-record.ts'
import { initialEventsEndAnnotation, type ObjectMeta } from '../../../controller-runtime/src/api/object.ts'

/** JSON helpers of `MemoryServer`, with both types of patch. */
export type Json = unknown

export interface Stored {
  apiVersion: string
  kind: string
  metadata: Partial<Omit<ObjectMeta, 'name' | 'version' | 'resourceVersion'>> & {
    name: string
    version: string
    resourceVersion: string
  }
  spec?: unknown
  status?: unknown
}

export function copy<T>(value: T): T {
  return structuredClone(value)
}

/** Parses a body as an object. @throws ApiError BadRequest */
export function stored(value: unknown): Stored {
  if (!isStored(value)) throw new ApiError('BadRequest', 'not an object with a name')
  return value
}

function isStored(value: unknown): value is Stored {
  return isRecord(value) && isRecord(value.metadata) && typeof value.metadata.name === 'string'
}

export function bookmarkOf(version: number): object {
  return {
    type: 'BOOKMARK',
    object: {
      metadata: {
        version: String(version),
        resourceVersion: String(version),
        annotations: { [initialEventsEndAnnotation]: 'true' },
      },
    },
  }
}

/** Applies a JSON Patch (an array) or a merge patch. */
export function applyPatch(target: unknown, patch: unknown): unknown {
  return Array.isArray(patch) ? jsonPatch(target, patch) : mergePatch(target, patch)
}

function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isRecord(patch)) return patch
  const result: Record<string, unknown> = isRecord(target) ? { ...target } : {}
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key]
    else result[key] = mergePatch(result[key], value)
  }
  return result
}

/** Supports `test`, `add`, `replace` and `remove`. @throws ApiError Invalid if an operation does not apply. */
function jsonPatch(target: unknown, operations: unknown[]): unknown {
  const result = copy(target)
  for (const operation of operations) {
    if (!isRecord(operation)) throw new ApiError('BadRequest', 'not an operation')
    const tokens = String(operation.path).split('/').slice(1)
    const key = tokens.pop() ?? ''
    let parent: unknown = result
    for (const token of tokens)
      parent = isRecord(parent) || Array.isArray(parent) ? Reflect.get(parent, token) : undefined
    if (!(isRecord(parent) || Array.isArray(parent)))
      throw new ApiError('Invalid', `${operation.path} is not there`)
    if (operation.op === 'test') {
      if (JSON.stringify(Reflect.get(parent, key)) !== JSON.stringify(operation.value)) {
        throw new ApiError('Invalid', `${operation.path} does not hold`)
      }
    } else if (operation.op === 'remove') {
      if (Array.isArray(parent)) parent.splice(Number(key), 1)
      else delete parent[key]
    } else if (Array.isArray(parent)) {
      parent.splice(
        key === '-' ? parent.length : Number(key),
        operation.op === 'replace' ? 1 : 0,
        operation.value,
      )
    } else parent[key] = operation.value
  }
  return result
}
