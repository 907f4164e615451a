import type { Model } from '../api/model.ts'

type NamedKind = Pick<Model, 'group' | 'version' | 'plural'>

/** `/apis/<group>/<version>/<plural>` */
export function collectionPath({ group, version, plural }: NamedKind): string {
  return `/apis/${encodeURIComponent(group)}/${encodeURIComponent(version)}/${encodeURIComponent(plural)}`
}

/**
 * `/apis/<group>/<version>/<plural>/<name>`
 * @throws TypeError for an empty name, which would address the collection.
 */
export function objectPath(model: NamedKind, name: string): string {
  if (typeof name !== 'string' || name === '') throw new TypeError('the object name must not be empty')
  return `${collectionPath(model)}/${encodeURIComponent(name)}`
}

/** The path for writing the status: the subresource if the model has one, else the object. */
export function statusPath(model: NamedKind & Pick<Model, 'subresources'>, name: string): string {
  return model.subresources.status ? `${objectPath(model, name)}/status` : objectPath(model, name)
}

/** Appends the defined parameters to a path; an array repeats its parameter. */
export function withQuery(path: string, query: object): string {
  const parameters = new URLSearchParams()
  for (const [key, value] of Object.entries(query)) {
    if (value === undefined) continue
    for (const element of Array.isArray(value) ? value : [value]) parameters.append(key, String(element))
  }
  return parameters.size === 0 ? path : `${path}?${parameters}`
}
