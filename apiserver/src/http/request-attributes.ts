import { type ResourceTarget, type Target, verbOf } from '../security/index.ts'
import type { ResourceRequest } from './request-state.ts'

/** A request as the rules of RBAC describe it. */
export interface RequestAttributes {
  readonly verb: string
  readonly target: Target
}

/** Returns the objects that a request is about. A list or watch that selects one name is about that name, as in Kubernetes. */
export function targetOf({
  path,
  query,
  verb,
}: Pick<ResourceRequest, 'path' | 'query' | 'verb'>): ResourceTarget {
  if (path.name !== undefined) return targetOfPath(path)
  if (verb !== 'list' && verb !== 'watch') return path
  const name = query.size === 0 ? undefined : selectedName(query.getAll('fieldSelector'))
  return name === undefined ? path : { ...path, name }
}

/** Returns what a path names. As in Kubernetes, a Namespace counts as in itself, so that a RoleBinding in it can grant it. */
export function targetOfPath(path: ResourceTarget): ResourceTarget {
  return path.group === '' && path.plural === 'namespaces' ? { ...path, namespace: path.name } : path
}

/** Returns the attributes of a request for a path that names no kind: of a plugin's route, or of the server. */
export function attributesOfPath(method: string, path: string): RequestAttributes {
  const target = resourceIn(path)
  if (target === undefined) return { verb: method === 'HEAD' ? 'get' : method.toLowerCase(), target: path }
  return { verb: verbOf(method, target.name === undefined ? 'collection' : 'object'), target }
}

/**
 * Reads `/apis/<group>/<version>/[namespaces/<namespace>/]<resource>/<name>/<subresource>/...` as Kubernetes does, whether or
 * not anything is served there. Does not normalize the path: a segment that no rule names is allowed by none.
 * @throws URIError for a segment that cannot be decoded
 */
function resourceIn(path: string): ResourceTarget | undefined {
  const segments = path.split('/')
  const isCore = segments[1] === 'api'
  if (segments[0] !== '' || (!isCore && segments[1] !== 'apis')) return undefined
  const group = isCore ? '' : segments[2]
  const parts = segments.slice(isCore ? 3 : 4).map(decodeURIComponent)
  if (group === undefined || parts.length === 0 || (parts.length === 1 && parts[0] === '')) return undefined
  const inNamespace = parts[0] === 'namespaces' && parts.length > 2 && parts[2] !== ''
  const [plural = '', name, subresource] = inNamespace ? parts.slice(2) : parts
  return {
    group: decodeURIComponent(group),
    plural,
    namespace: inNamespace ? parts[1] : undefined,
    name: name || undefined,
    subresource: subresource || undefined,
  }
}

const nameTerm = /^metadata\.name==?([A-Za-z0-9][-A-Za-z0-9.:_]*)$/

/** Returns the name that one of the selectors demands, if it is written plainly. */
function selectedName(selectors: readonly string[]): string | undefined {
  for (const selector of selectors) {
    // Brackets and escapes may hide a comma.
    if (/[()\\]/.test(selector)) continue
    for (const term of selector.split(',')) {
      const [, name] = nameTerm.exec(term) ?? []
      if (name !== undefined) return name
    }
  }
  return undefined
}
