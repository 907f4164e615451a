/** An entry of an APIResourceList. The name of a subresource is `<plural>/<subresource>`. */
export interface PlainResource {
  readonly name: string
  /** Empty for subresources and routes. */
  readonly singularName: string
  readonly namespaced: boolean
  /** The group and version of the kind, if they are not those of the list. */
  readonly group?: string
  readonly version?: string
  /** An empty text for a resource without objects. */
  readonly kind: string
  readonly verbs: readonly string[]
  readonly shortNames?: readonly string[]
  readonly categories?: readonly string[]
  readonly storageVersionHash?: string
}

/** A group with the resources of each of its versions, the preferred version first. */
export interface DiscoveredGroup {
  readonly name: string
  readonly versions: readonly { readonly version: string; readonly resources: readonly PlainResource[] }[]
}

export const aggregatedGroup = 'apidiscovery.k8s.io'
export const aggregatedVersions = ['v2', 'v2beta1'] as const
export type AggregatedVersion = (typeof aggregatedVersions)[number]

/** Kubernetes' APIGroupDiscoveryList: all groups, versions and resources in one document. */
export function aggregate(version: AggregatedVersion, groups: readonly DiscoveredGroup[]): object {
  return {
    kind: 'APIGroupDiscoveryList',
    apiVersion: `${aggregatedGroup}/${version}`,
    metadata: {},
    items: groups.map(({ name, versions }) => ({
      metadata: { name },
      versions: versions.map(({ version, resources }) => ({
        version,
        resources: nest(name, version, resources),
        freshness: 'Current',
      })),
    })),
  }
}

/** Puts each subresource into its resource. As in Kubernetes, one without a resource gets one without verbs. */
function nest(group: string, version: string, resources: readonly PlainResource[]): object[] {
  const parents = new Map<string, { resource: PlainResource; subresources: object[] }>()
  const parentOf = (resource: PlainResource) => {
    const known = parents.get(resource.name) ?? { resource, subresources: [] }
    parents.set(resource.name, known)
    return known
  }
  for (const resource of resources) {
    const [plural = '', subresource] = resource.name.split('/')
    if (subresource === undefined) {
      parentOf(resource).resource = resource
      continue
    }
    const { verbs, namespaced, kind } = resource
    const responseKind = kindOf(resource.group ?? group, resource.version ?? version, kind)
    parentOf({ name: plural, singularName: '', namespaced, kind: '', verbs: [] }).subresources.push({
      subresource,
      responseKind,
      verbs,
    })
  }
  return [...parents.values()].map(({ resource, subresources }) => ({
    resource: resource.name,
    responseKind: kindOf(group, version, resource.kind),
    scope: resource.namespaced ? 'Namespaced' : 'Cluster',
    singularResource: resource.singularName,
    verbs: resource.verbs,
    shortNames: resource.shortNames,
    categories: resource.categories,
    ...(subresources.length > 0 && { subresources }),
  }))
}

function kindOf(group: string, version: string, kind: string): object {
  return kind === '' ? { group: '', version: '', kind: '' } : { group, version, kind }
}
