import { createHash } from 'node:crypto'
import { compareApiVersions, type Model } from '@setpoint/controller-runtime/api'
import { compareUnits, type ModelRegistry, reviewPathOf, type ServedModel } from '../model/index.ts'
import {
  type AggregatedVersion,
  aggregate,
  aggregatedGroup,
  type DiscoveredGroup,
  type PlainResource,
} from './aggregated-discovery.ts'
import { isKubernetesGroup } from './built-in-formats.ts'
import { type DiscoveredRoute, routeResources } from './route-resources.ts'

const objectVerbs = ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch']
const statusVerbs = ['get', 'patch', 'update']

/** A document of discovery, ready to be sent. */
export interface DiscoveryDocument {
  readonly contentType: string
  readonly etag: string
  readonly body: Buffer
}

/** The root of the core group's paths, and that of all other groups. */
type DiscoveryRoot = 'api' | 'apis'

interface DiscoveryParts {
  readonly models: Pick<ModelRegistry, 'visible' | 'reviews' | 'groups' | 'changes'>
  readonly routes: {
    /** Rises with each change. */
    readonly changes: number
    describe(): readonly DiscoveredRoute[]
  }
}

/**
 * What is served: groups, versions, kinds and routes, one document for each level or all in one. A document is encoded
 * when it is first asked for, and kept until a kind or route comes or goes.
 */
export class Discovery {
  readonly #parts: DiscoveryParts
  readonly #documents = new Map<string, DiscoveryDocument>()
  #groups: readonly DiscoveredGroup[] = []
  #state = ''

  constructor(parts: DiscoveryParts) {
    this.#parts = parts
  }

  /** `GET /apis`: Kubernetes' APIGroupList. `GET /api`: its APIVersions, or undefined without a core group. */
  groups(root: DiscoveryRoot): DiscoveryDocument | undefined {
    const groups = this.#below(root)
    if (root === 'apis')
      return this.#document(root, () => ({
        kind: 'APIGroupList',
        apiVersion: 'v1',
        groups: groups.map(describeGroup),
      }))
    const [core] = groups
    if (core === undefined) return undefined
    const versions = core.versions.map(({ version }) => version)
    return this.#document(root, () => ({ kind: 'APIVersions', versions, serverAddressByClientCIDRs: [] }))
  }

  /** The same as `groups`, with the resources of every version: Kubernetes' APIGroupDiscoveryList. */
  aggregated(root: DiscoveryRoot, version: AggregatedVersion): DiscoveryDocument | undefined {
    const groups = this.#below(root)
    if (root === 'api' && groups.length === 0) return undefined
    const contentType = `application/json;g=${aggregatedGroup};v=${version};as=APIGroupDiscoveryList`
    return this.#document(`${root} ${version}`, () => aggregate(version, groups), contentType)
  }

  /** `GET /apis/<group>`: Kubernetes' APIGroup, or undefined if nothing is served there. */
  group(name: string): DiscoveryDocument | undefined {
    const found = this.#below('apis').find(group => group.name === name)
    return (
      found &&
      this.#document(`apis/${name}`, () => ({ kind: 'APIGroup', apiVersion: 'v1', ...describeGroup(found) }))
    )
  }

  /** `GET /apis/<group>/<version>`: Kubernetes' APIResourceList, or undefined if nothing is served there. */
  resources(root: DiscoveryRoot, group: string, version: string): DiscoveryDocument | undefined {
    const found = this.#below(root).find(({ name }) => name === group)
    const resources = found?.versions.find(each => each.version === version)?.resources
    if (resources === undefined || resources.length === 0) return undefined
    const groupVersion = groupVersionOf(group, version)
    return this.#document(`${root}/${groupVersion}`, () => ({
      kind: 'APIResourceList',
      apiVersion: 'v1',
      groupVersion,
      resources,
    }))
  }

  #below(root: DiscoveryRoot): readonly DiscoveredGroup[] {
    const { models, routes } = this.#parts
    const state = `${models.changes} ${routes.changes}`
    if (state !== this.#state) {
      this.#state = state
      this.#documents.clear()
      this.#groups = discoverGroups(models, routes.describe())
    }
    return this.#groups.filter(({ name }) => (name === '') === (root === 'api'))
  }

  #document(key: string, make: () => object, contentType = 'application/json'): DiscoveryDocument {
    const known = this.#documents.get(key)
    if (known !== undefined) return known
    const body = Buffer.from(JSON.stringify(make()))
    const etag = `"${createHash('sha256').update(body).digest('base64url')}"`
    const document = { contentType, etag, body }
    this.#documents.set(key, document)
    return document
  }
}

/**
 * Kubernetes' own groups come first: of several kinds with one name, clients take the first. Otherwise groups and kinds
 * are in the order of their names: a reload changes no ETag, and servers with the same plugins have the same ones.
 */
function discoverGroups(
  models: DiscoveryParts['models'],
  routes: readonly DiscoveredRoute[],
): readonly DiscoveredGroup[] {
  const groups = [...versionsByGroup(models, routes)]
    .map(([name, versions]) => ({
      name,
      versions: versions.map(version => ({ version, resources: resourcesOf(models, routes, name, version) })),
    }))
    .sort((a, b) => compareUnits(a.name, b.name))
  const isOfKubernetes = ({ name }: DiscoveredGroup) => isKubernetesGroup(name)
  return [...groups.filter(isOfKubernetes), ...groups.filter(group => !isOfKubernetes(group))]
}

/** Returns the versions of each group with kinds or routes, the preferred one first. */
function versionsByGroup(
  models: DiscoveryParts['models'],
  routes: readonly DiscoveredRoute[],
): ReadonlyMap<string, readonly string[]> {
  const groups = new Map(models.groups())
  for (const { groupVersion } of routes) {
    const [name = '', version = ''] = groupVersion.split('/')
    const versions = new Set([...(groups.get(name) ?? []), version])
    groups.set(name, [...versions].sort(compareApiVersions))
  }
  return groups
}

function resourcesOf(
  models: DiscoveryParts['models'],
  routes: readonly DiscoveredRoute[],
  group: string,
  version: string,
): PlainResource[] {
  const kinds = [...models.visible()]
    .filter(served => served.servedVersions().some(each => each.group === group && each.name === version))
    .sort((a, b) => compareUnits(a.model.plural, b.model.plural))
    .flatMap(served => describeModel(served, version))
  const reviews = models
    .reviews()
    .filter(served => reviewPathOf(served).group === group && reviewPathOf(served).version === version)
    .map(describeReview)
  return [...kinds, ...reviews, ...routeResources(routes, groupVersionOf(group, version))]
}

function describeReview(served: ServedModel): PlainResource {
  const { group, version, kind, singular, scope } = served.model
  const { parent } = served.review ?? {}
  return {
    name: reviewPathOf(served).plural,
    singularName: parent === undefined ? singular : '',
    namespaced: scope === 'Namespaced',
    // The kind of a subresource may be of another group.
    ...(parent !== undefined && { group, version }),
    kind,
    verbs: ['create'],
  }
}

function describeGroup({ name, versions }: DiscoveredGroup) {
  const described = versions.map(({ version }) => ({ groupVersion: groupVersionOf(name, version), version }))
  return { name, versions: described, preferredVersion: described[0] }
}

function groupVersionOf(group: string, version: string): string {
  return group === '' ? version : `${group}/${version}`
}

/** In the order of Kubernetes. */
const definedVerbs = ['delete', 'deletecollection', 'get', 'list', 'patch', 'create', 'update', 'watch']

/**
 * The hash of the version that objects are stored in (`k8s.io/apiserver/pkg/endpoints/discovery`,
 * `StorageVersionHash`).
 */
function storageVersionHash({ group, version, kind }: Model): string {
  const hash = createHash('sha256').update(`${group}/${version}/${kind}`).digest()
  return hash.subarray(0, 8).toString('base64')
}

function describeModel({ model, rules, defined }: ServedModel, version: string): PlainResource[] {
  const { plural, singular, kind, subresources, shortNames, categories, scope } = model
  const { hasStatus, scale } = defined?.versions.get(version) ?? { hasStatus: subresources.status }
  const namespaced = scope === 'Namespaced'
  const isLasting = rules?.checkDeletion !== undefined
  const verbs = isLasting ? objectVerbs.filter(verb => verb !== 'deletecollection') : objectVerbs
  const hash = defined && storageVersionHash(model)
  const resource = {
    name: plural,
    singularName: singular,
    namespaced,
    kind,
    verbs: defined === undefined ? verbs : definedVerbs,
    ...(hash !== undefined && { storageVersionHash: hash }),
    ...(shortNames.length > 0 && { shortNames }),
    ...(categories.length > 0 && { categories }),
  }
  const subresource = (name: string, allowed: readonly string[]): PlainResource => ({
    name: `${plural}/${name}`,
    singularName: '',
    namespaced,
    kind,
    verbs: allowed,
  })
  return [
    resource,
    ...(hasStatus ? [subresource('status', statusVerbs)] : []),
    ...(scale === undefined
      ? []
      : [{ ...subresource('scale', statusVerbs), group: 'autoscaling', version: 'v1', kind: 'Scale' }]),
    ...(rules?.subresources ?? []).map(name => subresource(name, ['update'])),
  ]
}
