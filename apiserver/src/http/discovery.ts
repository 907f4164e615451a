import { compareApiVersions, type Model } from '@setpoint/controller-runtime/api'
import type { ModelRegistry } from '../model/index.ts'
import type { CustomRoutes } from './custom-routes.ts'
import { routeResources } from './route-resources.ts'

const objectVerbs = ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch']
const statusVerbs = ['get', 'patch', 'update']

/** `GET /apis`: Kubernetes' APIGroupList. */
export function groupList(models: ModelRegistry, routes: CustomRoutes): object {
  const groups = [...servedGroups(models, routes)].map(([name, versions]) => describeGroup(name, versions))
  return { kind: 'APIGroupList', apiVersion: 'v1', groups }
}

/** `GET /apis/<group>`: Kubernetes' APIGroup, or undefined if nothing is served there. */
export function group(models: ModelRegistry, routes: CustomRoutes, name: string): object | undefined {
  const versions = servedGroups(models, routes).get(name)
  return versions && { kind: 'APIGroup', apiVersion: 'v1', ...describeGroup(name, versions) }
}

/** `GET /apis/<group>/<version>`: Kubernetes' APIResourceList, or undefined if nothing is served there. */
export function resourceList(
  models: ModelRegistry,
  routes: CustomRoutes,
  groupVersion: string,
): object | undefined {
  const kinds = [...models.all()]
    .filter(({ versions }) => versions.some(({ apiVersion }) => apiVersion === groupVersion))
    .flatMap(({ model }) => describeModel(model))
  const resources = [...kinds, ...routeResources(routes, groupVersion)]
  return resources.length === 0
    ? undefined
    : { kind: 'APIResourceList', apiVersion: 'v1', groupVersion, resources }
}

/** Returns the versions of each group with kinds or routes, the preferred one first. */
function servedGroups(models: ModelRegistry, routes: CustomRoutes): ReadonlyMap<string, readonly string[]> {
  const groups = new Map(models.groups())
  for (const { groupVersion } of routes.describe()) {
    const [name = '', version = ''] = groupVersion.split('/')
    const versions = new Set([...(groups.get(name) ?? []), version])
    groups.set(name, [...versions].sort(compareApiVersions))
  }
  return groups
}

function describeGroup(name: string, versions: readonly string[]) {
  const described = versions.map(version => ({ groupVersion: `${name}/${version}`, version }))
  return { name, versions: described, preferredVersion: described[0] }
}

function describeModel({ plural, singular, kind, subresources, shortNames, categories }: Model): object[] {
  const resource = {
    ...{ name: plural, singularName: singular, namespaced: false, kind, verbs: objectVerbs },
    ...(shortNames.length > 0 && { shortNames }),
    ...(categories.length > 0 && { categories }),
  }
  if (!subresources.status) return [resource]
  return [
    resource,
    { name: `${plural}/status`, singularName: '', namespaced: false, kind, verbs: statusVerbs },
  ]
}
