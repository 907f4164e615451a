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
 * Returns the entries of an APIResourceList for the routes of a group version: one for each resource or subresource that
 * Kubernetes reads in their paths, `<resource>/<name>/<subresource>`.
 *
 * A route promises no objects, so it must not look like a kind. Clients skip subresources when they look for kinds. Other
 * entries have no verbs, as those of `subresources.kubevirt.io`. A list without entries would be an error for kubectl.
 */
export function routeResources(routes: readonly DiscoveredRoute[], groupVersion: string): PlainResource[] {
  const verbs = new Map<string, Set<string>>()
  for (const route of routes) {
    if (route.groupVersion !== groupVersion) continue
    const { name, verb } = readPath(route)
    const known = verbs.get(name) ?? new Set()
    verbs.set(name, verb === undefined ? known : known.add(verb))
  }
  return [...verbs].map(([name, known]) => ({
    name,
    singularName: '',
    namespaced: false,
    kind: '',
    verbs: [...known].sort(),
  }))
}

function readPath({ method, pattern }: DiscoveredRoute): { name: string; verb?: string } {
  const [resource = '*', , subresource] = pattern
    // The braces of an optional part.
    .replace(/[{}]/g, '')
    .split('/')
    .filter(part => part !== '')
    .map(part => (/[:*]/.test(part) ? '*' : part))
  return subresource === undefined
    ? { name: resource }
    : { name: `${resource}/${subresource}`, verb: verbOf[method] }
}
