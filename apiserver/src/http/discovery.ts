import type { Model } from '@setpoint/controller-runtime/api'
import type { ModelRegistry } from '../model/index.ts'

const objectVerbs = ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch']
const statusVerbs = ['get', 'patch', 'update']

/** `GET /apis`: Kubernetes' APIGroupList. */
export function groupList(models: ModelRegistry): object {
  const groups = [...models.groups()].map(([name, versions]) => describeGroup(name, versions))
  return { kind: 'APIGroupList', apiVersion: 'v1', groups }
}

/** `GET /apis/<group>`: Kubernetes' APIGroup, or undefined if nothing is served there. */
export function group(models: ModelRegistry, name: string): object | undefined {
  const versions = models.groups().get(name)
  return versions && { kind: 'APIGroup', apiVersion: 'v1', ...describeGroup(name, versions) }
}

/** `GET /apis/<group>/<version>`: Kubernetes' APIResourceList, or undefined if nothing is served there. */
export function resourceList(models: ModelRegistry, groupVersion: string): object | undefined {
  const resources = [...models.all()]
    .filter(({ versions }) => versions.some(({ apiVersion }) => apiVersion === groupVersion))
    .flatMap(({ model }) => describeModel(model))
  return resources.length === 0
    ? undefined
    : { kind: 'APIResourceList', apiVersion: 'v1', groupVersion, resources }
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
