import type { Kind } from './discovery.ts'
import { get, request } from './http.ts'
import { fieldsOf, listOf, textsOf } from './json.ts'

/** What the person in front of the page may do, as the server's reviews say. */
export class Rights {
  /** False for a server that accepts everyone who reaches it, as an administrator. */
  readonly #isLimited: boolean
  readonly #known = new Map<string, Promise<boolean>>()

  constructor(isLimited: boolean) {
    this.#isLimited = isLimited
  }

  /** @param where the collection or the object; without a namespace, all namespaces */
  may(verb: string, { group, plural }: Pick<Kind, 'group' | 'plural'>, where: Where = {}): Promise<boolean> {
    if (!this.#isLimited) return Promise.resolve(true)
    const resourceAttributes = { verb, group, resource: plural, ...where }
    const key = JSON.stringify(resourceAttributes)
    const known = this.#known.get(key)
    if (known !== undefined) return known
    const asked = request('/apis/authorization.k8s.io/v1/selfsubjectaccessreviews', {
      method: 'POST',
      body: {
        apiVersion: 'authorization.k8s.io/v1',
        kind: 'SelfSubjectAccessReview',
        spec: { resourceAttributes },
      },
    }).then(
      ({ body }) => fieldsOf(fieldsOf(body).status).allowed === true,
      // Without reviews, the server decides when it is asked.
      () => true,
    )
    this.#known.set(key, asked)
    // Roles change.
    setTimeout(() => this.#known.delete(key), 30_000)
    return asked
  }

  /** Returns the plurals with their groups, as `<plural>.<group>`, that the person may list in a namespace. */
  async listableIn(namespace: string): Promise<(kind: Kind) => boolean> {
    if (!this.#isLimited) return () => true
    const { body } = await request('/apis/authorization.k8s.io/v1/selfsubjectrulesreviews', {
      method: 'POST',
      body: { apiVersion: 'authorization.k8s.io/v1', kind: 'SelfSubjectRulesReview', spec: { namespace } },
    }).catch(() => ({ body: {} }))
    const rules = listOf(fieldsOf(fieldsOf(body).status).resourceRules).map(each => {
      const { verbs, apiGroups, resources, resourceNames } = fieldsOf(each)
      return {
        verbs: textsOf(verbs),
        groups: textsOf(apiGroups),
        resources: textsOf(resources),
        isOfAll: textsOf(resourceNames).length === 0,
      }
    })
    const has = (list: readonly string[], value: string) => list.includes(value) || list.includes('*')
    return ({ group, plural }) =>
      rules.some(
        ({ verbs, groups, resources, isOfAll }) =>
          isOfAll && has(verbs, 'list') && has(groups, group) && has(resources, plural),
      )
  }
}

interface Where {
  readonly namespace?: string
  readonly name?: string
  readonly subresource?: string
}

/** Returns the name of the person, or undefined if the server does not say. */
export async function whoAmI(): Promise<string | undefined> {
  const review = await request('/apis/authentication.k8s.io/v1/selfsubjectreviews', {
    method: 'POST',
    body: { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' },
  }).catch(() => undefined)
  const { username } = fieldsOf(fieldsOf(fieldsOf(review?.body).status).userInfo)
  return typeof username === 'string' ? username : undefined
}

/** Returns the names of the namespaces, at most 500. @throws ApiFailure */
export async function namespaceNames(): Promise<string[]> {
  const { items } = await get('/api/v1/namespaces?size=500&sort=metadata.name,asc')
  return listOf(items).map(each => String(fieldsOf(fieldsOf(each).metadata).name))
}
