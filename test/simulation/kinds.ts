import type { Resource } from './history.ts'

export const gadgets: Resource = {
  group: 'sim.example.com',
  version: 'v1',
  kind: 'Gadget',
  plural: 'gadgets',
  namespaced: false,
  unique: 'email',
}

export const parts: Resource = {
  group: 'sim.example.com',
  version: 'v1',
  kind: 'Part',
  plural: 'parts',
  namespaced: true,
}

export const namespaces: Resource = {
  group: '',
  version: 'v1',
  kind: 'Namespace',
  plural: 'namespaces',
  namespaced: false,
}

export const leases: Resource = {
  group: 'coordination.k8s.io',
  version: 'v1',
  kind: 'Lease',
  plural: 'leases',
  namespaced: true,
}

const rbac = { group: 'rbac.authorization.k8s.io', version: 'v1', namespaced: false } as const

export const roles: Resource = { ...rbac, kind: 'ClusterRole', plural: 'clusterroles' }
export const bindings: Resource = { ...rbac, kind: 'ClusterRoleBinding', plural: 'clusterrolebindings' }

/** A kind that comes and goes with its definition. All gears are in `default`. */
export const gears: Resource = {
  group: 'live.example.com',
  version: 'v1',
  kind: 'Gear',
  plural: 'gears',
  namespaced: true,
  unique: 'email',
}

export const definitions: Resource = {
  group: 'apiextensions.k8s.io',
  version: 'v1',
  kind: 'CustomResourceDefinition',
  plural: 'customresourcedefinitions',
  namespaced: false,
}

export const definitionOfGears = 'gears.live.example.com'

/** A user who may read gadgets, parts, gears and definitions as long as the role and the binding of this name exist. */
export const reader = 'reader'

/** The tokens that the reader has, at first only the first one. */
export const readersTokens = [reader, 'reader-2'] as const

/** A user whom no role allows anything. */
export const stranger = 'stranger'

export const resources = { gadgets, parts, namespaces, roles, bindings, gears, definitions } as const
export type ResourceName = keyof typeof resources

/** Returns a kind as requests of a version ask for it. */
export function resourceOf({
  of,
  version,
}: {
  readonly of: ResourceName
  readonly version?: string | undefined
}): Resource {
  return version === undefined ? resources[of] : { ...resources[of], version }
}

/** Returns the namespace of an object that an action names. */
export function namespaceIn({
  of,
  namespace,
}: {
  of: ResourceName
  namespace?: string | undefined
}): string | undefined {
  return of === 'gears' ? 'default' : namespace
}

/** Returns the path of a kind's collection, or of one object. */
export function pathOf(
  { group, version, plural, namespaced }: Resource,
  namespace: string | undefined,
  name?: string,
): string {
  const root = group === '' ? `/api/${version}` : `/apis/${group}/${version}`
  const within = namespaced && namespace !== undefined ? `/namespaces/${namespace}` : ''
  return `${root}${within}/${plural}${name === undefined ? '' : `/${name}`}`
}

/** Returns the annotations of a definition with an index of emails. */
export function annotationsOf(unique: 'email' | 'nothing'): Record<string, string> {
  return { 'setpoint.dev/indexes': JSON.stringify([{ path: '.spec.email', unique: unique === 'email' }]) }
}

/** Returns the content of the reader's role or binding, or of the definition of gears. */
export function contentOf(resource: Resource): Record<string, unknown> {
  const verbs = ['get', 'list', 'watch']
  const kinds = [gadgets, parts, gears, definitions]
  if (resource.plural === roles.plural)
    return {
      rules: [
        { apiGroups: kinds.map(({ group }) => group), resources: kinds.map(({ plural }) => plural), verbs },
      ],
    }
  if (resource.plural === definitions.plural) return definitionContent()
  if (resource.plural !== bindings.plural) return {}
  const apiGroup = rbac.group
  return {
    roleRef: { apiGroup, kind: 'ClusterRole', name: reader },
    subjects: [{ apiGroup, kind: 'User', name: reader }],
  }
}

function definitionContent(): Record<string, unknown> {
  const { group, kind, plural } = gears
  const properties = {
    email: { type: 'string' },
    size: { type: 'integer', minimum: 0, maximum: 9 },
    note: { type: 'string' },
  }
  const openAPIV3Schema = { type: 'object', properties: { spec: { type: 'object', properties } } }
  const selectableFields = [{ jsonPath: '.spec.size' }]
  const version = { name: 'v1', served: true, storage: true, schema: { openAPIV3Schema }, selectableFields }
  return {
    metadata: { name: definitionOfGears, annotations: annotationsOf('email') },
    spec: { group, scope: 'Namespaced', names: { plural, singular: 'gear', kind }, versions: [version] },
  }
}
