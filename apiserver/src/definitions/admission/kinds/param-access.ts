import type { UserInfo } from '@setpoint/controller-runtime'
import { type Fields, recordOf, textOf } from '../../../kubernetes/index.ts'
import type { Authorizer } from '../../../security/index.ts'

interface ParamAccessParts {
  readonly authorizer: Pick<Authorizer, 'allows'>
  /** Returns the plural of a kind, or undefined if it is not served. */
  readonly pluralOf: (apiVersion: string, kind: string) => string | undefined
  /** Returns the spec of a policy in this server's cache. */
  readonly policyNamed: (name: string) => Fields | undefined
}

/**
 * Checks that the writer of a policy or a binding may read its parameters, as Kubernetes does: the messages of the policy may
 * show what they contain.
 */
export class ParamAccess {
  readonly #parts: ParamAccessParts

  constructor(parts: ParamAccessParts) {
    this.#parts = parts
  }

  /** Returns why a user may not write a policy with this kind of parameters, or undefined. @throws ApiError 503 */
  refusalOfKind(paramKind: Fields, user: UserInfo): string | undefined {
    const target = { ...this.#resourceOf(paramKind), namespace: '*', name: '*', subresource: undefined }
    if (this.#parts.authorizer.allows(user, 'get', target)) return undefined
    const { apiVersion, kind } = paramKind
    return `user ${user.name} must have "get" permission on all objects of the referenced paramKind (kind=${textOf(kind)}, apiVersion=${textOf(apiVersion)})`
  }

  /** Returns why a user may not write a binding with these parameters, or undefined. @throws ApiError 503 */
  refusalOfRef(ref: Fields, policyName: string, user: UserInfo): string | undefined {
    const { paramKind } = this.#parts.policyNamed(policyName) ?? {}
    const name = textOf(ref.name) || undefined
    const verb = name === undefined ? 'list' : 'get'
    const namespace = textOf(ref.namespace) || undefined
    const target = { ...this.#resourceOf(recordOf(paramKind)), namespace, name, subresource: undefined }
    if (this.#parts.authorizer.allows(user, verb, target)) return undefined
    return `user ${user.name} does not have "${verb}" permission on the object referenced by paramRef`
  }

  /** Of a kind that is not known, the user must be allowed to read everything. */
  #resourceOf({ apiVersion, kind }: Fields): { group: string; plural: string } {
    const text = textOf(apiVersion)
    if (text === '') return { group: '*', plural: '*' }
    const group = text.includes('/') ? text.slice(0, text.indexOf('/')) : ''
    return { group, plural: this.#parts.pluralOf(text, textOf(kind)) ?? '*' }
  }
}
