import { type Fields, isFields } from '../support/json.ts'
import type { Resource } from './history.ts'

/** The version of gadgets and parts that later releases serve too. There the size is called volume. */
export const secondVersion = 'v2'

/** Returns a spec, or a part of one, as a version has it. */
export function specIn({ version }: Resource, spec: Fields): Fields {
  return version === secondVersion ? toVolume(spec) : spec
}

/** Returns what a request for a version got, an object or a list, as the first version shows it. */
export function asFirst(resource: Resource, body: unknown): unknown {
  if (resource.version !== secondVersion || !isFields(body)) return body
  const { items } = body
  if (Array.isArray(items)) return { ...body, items: items.map(item => objectAsFirst(resource, item)) }
  return body.kind === resource.kind ? objectAsFirst(resource, body) : body
}

/**
 * Returns what a deletion or the removal of finalizers got, as the first version shows it. A server that does not know the
 * version that an object is stored in lets it go nevertheless, and shows it in that version.
 */
export function removedAsFirst(resource: Resource, body: unknown): unknown {
  if (resource.version === secondVersion || !isFields(body) || body.kind !== resource.kind)
    return asFirst(resource, body)
  return storedAsFirst(body).object
}

/** One that does not have the version keeps its own, so that it differs from all that is stored. */
function objectAsFirst({ group, version }: Resource, object: unknown): unknown {
  if (!isFields(object)) return object
  const { apiVersion, spec } = object
  if (apiVersion !== `${group}/${version}`) return { ...object, apiVersion: `${apiVersion}, not ${version}` }
  return { ...object, apiVersion: `${group}/v1`, ...(isFields(spec) && { spec: toSize(spec) }) }
}

/** Returns an object as the first version shows it, and the version that it is stored in. */
export function storedAsFirst(object: Fields): { readonly object: Fields; readonly storedIn: string } {
  const [group, storedIn = ''] = String(object.apiVersion).split('/')
  if (storedIn !== secondVersion) return { object, storedIn }
  const { spec } = object
  return {
    object: { ...object, apiVersion: `${group}/v1`, spec: isFields(spec) ? toSize(spec) : spec },
    storedIn,
  }
}

function toVolume({ size, ...rest }: Fields): Fields {
  return size === undefined ? rest : { ...rest, volume: size }
}

/** A size of the second version, which has none, stays visible under another name. */
function toSize({ size, volume, ...rest }: Fields): Fields {
  return {
    ...rest,
    ...(volume !== undefined && { size: volume }),
    ...(size !== undefined && { strange: size }),
  }
}
