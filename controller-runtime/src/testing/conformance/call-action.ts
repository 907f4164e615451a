import type { Model } from '../../api/model.ts'
import { kindsOfEveryServer } from '../../kinds/served-by-every-server.ts'
import type { Call } from './process-transport.ts'

/** Describes a call for people, for example "writing the status of gadget a". */
export function actionOf(
  { method, path, body }: Pick<Call, 'method' | 'path' | 'body'>,
  models: readonly Model[],
): string {
  const { plural, name, subresource } = partsOf(path)
  const singular = [...models, ...kindsOfEveryServer].find(model => model.plural === plural)?.singular
  const object = `${singular ?? plural} ${name}`
  switch (method) {
    case 'GET':
      return name === '' ? `listing ${plural}` : `reading ${object}`
    case 'POST':
      if (name !== '') return `calling ${subresource} of ${object}`
      return singular === undefined ? `creating an object of ${plural}` : `creating ${withArticle(singular)}`
    case 'DELETE':
      return name === '' ? `deleting ${plural}` : `deleting ${object}`
    default:
      if (subresource !== '') return `writing the ${subresource} of ${object}`
      return finalizerAction(body) ?? `writing ${object}`
  }
}

/** Returns the noun with its article: "a gadget", "an event". */
export function withArticle(singular: string): string {
  return `${/^[aeiou]/.test(singular) ? 'an' : 'a'} ${singular}`
}

/**
 * Returns what calls of one kind have in common in every lifecycle: method, resource and subresource, and whether they
 * add or remove a finalizer. Names are left out, since they may be random.
 */
export function kindOf({ method, path, body }: Pick<Call, 'method' | 'path' | 'body'>): string {
  const { plural, name, subresource } = partsOf(path)
  const of = [plural, ...(name === '' ? [] : ['name']), ...(subresource === '' ? [] : [subresource])]
  return [method, of.join('/'), finalizerAction(body)].join(' ')
}

/** Returns the path below the group and version. */
export function shortPath(path: string): string {
  return path.replace(/^\/(?:api|apis\/[^/]+)\/[^/]+\//, '')
}

/** The subresources of a namespace itself. */
const ofNamespace: ReadonlySet<string> = new Set(['status', 'finalize'])

function partsOf(path: string): { plural: string; name: string; subresource: string } {
  const parts = shortPath(path).split('/')
  const [plural = '', name = '', subresource = ''] =
    parts[0] === 'namespaces' && parts.length > 2 && !ofNamespace.has(parts[2] ?? '') ? parts.slice(2) : parts
  return { plural, name, subresource }
}

/** A JSON Patch of the finalizers, as the controller makes it. */
function finalizerAction(body: string | undefined): string | undefined {
  if (body === undefined || !body.startsWith('[') || !body.includes('"/metadata/finalizers')) return undefined
  return body.includes('"op":"remove"') ? 'removing its finalizer' : 'adding its finalizer'
}
