import { ApiFailure, get } from './http.ts'
import { type Fields, fieldsOf, listOf, textOf, textsOf } from './json.ts'

/** A kind in one of its versions. */
export interface Kind {
  readonly group: string
  readonly version: string
  readonly kind: string
  readonly plural: string
  readonly singular: string
  readonly isNamespaced: boolean
  readonly shortNames: readonly string[]
  readonly verbs: ReadonlySet<string>
  readonly hasStatus: boolean
  /** Whether it is the first version of its kind. */
  readonly isPreferred: boolean
}

const aggregated = 'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json'

/** Returns every kind that the server has, in each of its versions. @throws ApiFailure */
export async function discover(): Promise<Kind[]> {
  const [named, core] = await Promise.all([
    get('/apis', { accept: aggregated }),
    // Absent if Kubernetes' own kinds are hidden.
    get('/api', { accept: aggregated }).catch(error => {
      if (error instanceof ApiFailure && (error.code === 404 || error.code === 403)) return {}
      throw error
    }),
  ])
  return [core, named].flatMap(kindsOf).sort((a, b) => compare(a.plural, b.plural))
}

function kindsOf(list: Fields): Kind[] {
  return listOf(list.items).flatMap(item => {
    const { metadata, versions } = fieldsOf(item)
    const group = textOf(fieldsOf(metadata).name)
    const seen = new Set<string>()
    return listOf(versions).flatMap(each => {
      const { version, resources } = fieldsOf(each)
      return listOf(resources).flatMap(resource => {
        const kind = kindOf(fieldsOf(resource), group, textOf(version), seen)
        return kind === undefined ? [] : [kind]
      })
    })
  })
}

function kindOf(resource: Fields, group: string, version: string, seen: Set<string>): Kind | undefined {
  const verbs = new Set(textsOf(resource.verbs))
  // Reviews and routes cannot be listed.
  if (!verbs.has('list')) return undefined
  const plural = textOf(resource.resource)
  const isPreferred = !seen.has(plural)
  seen.add(plural)
  return {
    group,
    version,
    kind: textOf(fieldsOf(resource.responseKind).kind),
    plural,
    singular: textOf(resource.singularResource),
    isNamespaced: resource.scope === 'Namespaced',
    shortNames: textsOf(resource.shortNames),
    verbs,
    hasStatus: listOf(resource.subresources).some(each => fieldsOf(each).subresource === 'status'),
    isPreferred,
  }
}

export function apiVersionOf({ group, version }: Kind): string {
  return group === '' ? version : `${group}/${version}`
}

/** Returns the path of a collection, or of one object of it. */
export function pathOfKind(kind: Kind, namespace?: string, name?: string): string {
  const { group, version, plural, isNamespaced } = kind
  const root = group === '' ? `/api/${version}` : `/apis/${group}/${version}`
  const within = isNamespaced && namespace !== undefined ? `/namespaces/${encodeURIComponent(namespace)}` : ''
  return `${root}${within}/${plural}${name === undefined ? '' : `/${encodeURIComponent(name)}`}`
}

export function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
