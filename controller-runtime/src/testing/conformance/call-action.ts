import type { Model } from '../../api/model.ts'
import type { Call } from './process-transport.ts'

/** Describes a call for people, for example "writing the status of gadget a". */
export function actionOf(
  { method, path, body }: Pick<Call, 'method' | 'path' | 'body'>,
  models: readonly Model[],
): string {
  const { plural, name, subresource } = partsOf(path)
  const singular = models.find(model => model.plural === plural)?.singular ?? plural
  const object = `${singular} ${name}`
  switch (method) {
    case 'GET':
      return name === '' ? `listing ${plural}` : `reading ${object}`
    case 'POST':
      return name === '' ? `creating a ${singular}` : `posting to ${object}`
    case 'DELETE':
      return name === '' ? `deleting ${plural}` : `deleting ${object}`
    default:
      if (subresource !== '') return `writing the ${subresource} of ${object}`
      return finalizerAction(body) ?? `writing ${object}`
  }
}

/**
 * Returns what calls of one kind have in common in every lifecycle: method, resource and subresource, and whether they add or
 * remove a finalizer. Names are left out, since they may be random.
 */
export function kindOf({ method, path, body }: Pick<Call, 'method' | 'path' | 'body'>): string {
  const { plural, name, subresource } = partsOf(path)
  const of = [plural, ...(name === '' ? [] : ['name']), ...(subresource === '' ? [] : [subresource])]
  return [method, of.join('/'), finalizerAction(body)].join(' ')
}

/** Returns the path below the group and version. */
export function shortPath(path: string): string {
  return path.replace(/^\/apis\/[^/]+\/[^/]+\//, '')
}

function partsOf(path: string): { plural: string; name: string; subresource: string } {
  const parts = shortPath(path).split('/')
  const [plural = '', name = '', subresource = ''] =
    parts[0] === 'namespaces' && parts.length > 2 ? parts.slice(2) : parts
  return { plural, name, subresource }
}

/** A JSON Patch of the finalizers, as the controller makes it. */
function finalizerAction(body: string | undefined): string | undefined {
  if (body === undefined || !body.startsWith('[') || !body.includes('"/metadata/finalizers')) return undefined
  return body.includes('"op":"remove"') ? 'removing its finalizer' : 'adding its finalizer'
}
