import type { PlainResource } from './aggregated-discovery.ts'

/** What discovery reads of a plugin's route. */
export interface DiscoveredRoute {
  /** `<group>/<version>` */
  readonly groupVersion: string
  readonly method: keyof typeof verbOf
  /** Below the group version, with parameters as `:name`. */
  readonly pattern: string
}

const verbOf = { GET: 'get', POST: 'create', PUT: 'update', PATCH: 'patch', DELETE: 'delete' } as const

/**
 * Returns the entries of an APIResourceList for the routes and actions of a group version: one for each resource or
 * subresource that Kubernetes reads in their paths, `<resource>/<name>/<subresource>`.
 *
 * A route promises no objects, so it must not look like a kind. Clients skip subresources when they look for kinds.
 * Other entries have no verbs, as those of `subresources.kubevirt.io`. A list without entries would be an error for
 * kubectl.
 */
export function routeResources(routes: readonly DiscoveredRoute[], groupVersion: string): PlainResource[] {
  const found = new Map<string, { namespaced: boolean; verbs: Set<string> }>()
  for (const route of routes) {
    if (route.groupVersion !== groupVersion) continue
    const { name, namespaced, verb } = readPath(route)
    const known = found.get(name) ?? { namespaced, verbs: new Set() }
    if (verb !== undefined) known.verbs.add(verb)
    found.set(name, known)
  }
  return [...found].map(([name, { namespaced, verbs }]) => ({
    name,
    singularName: '',
    namespaced,
    kind: '',
    verbs: [...verbs].sort(),
  }))
}

function readPath({ method, pattern }: DiscoveredRoute): {
  readonly name: string
  readonly namespaced: boolean
  readonly verb?: string
} {
  const parts = pattern
    // The braces of an optional part.
    .replace(/[{}]/g, '')
    .split('/')
    .filter(part => part !== '')
    .map(part => (/[:*]/.test(part) ? '*' : part))
  // Of actions only: no pattern of a route begins with it.
  const namespaced = parts[0] === 'namespaces'
  const [resource = '*', , subresource] = namespaced ? parts.slice(2) : parts
  return subresource === undefined
    ? { name: resource, namespaced }
    : { name: `${resource}/${subresource}`, namespaced, verb: verbOf[method] }
}
