import type { Model } from '../api/model.ts'
import type { ApiObject } from '../api/object.ts'
import { matchesAll, parseFieldSelector, parseLabelSelector } from '../api/selector.ts'
import type { SelectorOptions } from '../client/client.ts'

/**
 * Compiles selectors to a predicate that matches as the server does.
 * @throws SelectorError if one is invalid.
 */
export function compileSelectors<T extends ApiObject>(
  model: Model<T>,
  { labelSelector = [], fieldSelector = [] }: SelectorOptions,
): (object: T) => boolean {
  const labels = parseLabelSelector(...[labelSelector].flat())
  const fields = parseFieldSelector(...[fieldSelector].flat())
  if (labels.length === 0 && fields.length === 0) return () => true
  return object => {
    const { metadata } = object
    return (
      matchesAll(labels, key => present(own(metadata.labels, key))) &&
      matchesAll(fields, field => fieldValues(model, object, field))
    )
  }
}

function fieldValues<T extends ApiObject>(model: Model<T>, object: T, field: string): readonly string[] {
  const { metadata } = object
  switch (field) {
    case 'metadata.name':
      return [metadata.name]
    case 'metadata.namespace':
      return present(metadata.namespace)
    case 'metadata.creationTimestamp':
      return [metadata.creationTimestamp]
    case 'metadata.deletionTimestamp':
      return present(metadata.deletionTimestamp)
    case 'metadata.labels':
      return Object.entries(metadata.labels ?? {}).map(([key, value]) => `${key}=${value}`)
  }
  try {
    return model.indexes.find(({ name }) => name === field)?.valuesOf(object) ?? []
  } catch {
    // The server stores such objects too; no field selector finds them.
    return []
  }
}

function own(map: Readonly<Record<string, string>> | undefined, key: string): string | undefined {
  return map !== undefined && Object.hasOwn(map, key) ? map[key] : undefined
}

function present(value: string | undefined): readonly string[] {
  return value === undefined ? [] : [value]
}
