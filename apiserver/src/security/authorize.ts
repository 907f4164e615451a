import type { UserInfo } from '@setpoint/controller-runtime'
import type { PolicyRule } from './policy-rule.ts'

/** The verbs of Kubernetes' RBAC for objects. */
export type Verb = 'get' | 'list' | 'watch' | 'create' | 'update' | 'patch' | 'delete' | 'deletecollection'

/** The objects that a request is about, as the rules of RBAC name them. */
export interface ResourceTarget {
  /** Empty for the core group. */
  readonly group: string
  readonly plural: string
  /** Undefined for a cluster-scoped kind, and across all namespaces. */
  readonly namespace: string | undefined
  /** Undefined for a collection. */
  readonly name: string | undefined
  readonly subresource: string | undefined
}

/** Objects, or a path that is not about objects; its verb is the method in lower case. */
export type Target = ResourceTarget | string

/** What allows a request. */
export interface Grant {
  /** As Kubernetes words it: `RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "r" to User "ann"`. */
  readonly reason: string
}

/** The rules that apply to a user in a namespace. */
export interface UserRules {
  readonly rules: readonly PolicyRule[]
  /** Why `rules` may be incomplete or grant too much, if so. */
  readonly problem?: string
}

/** Decides what callers may do. */
export interface Authorizer {
  /**
   * Returns what allows a user to do something, or undefined. Every check of the server is a call of this method or of
   * the two that follow.
   * @throws ApiError 503 while the roles are being read
   */
  grantOf(user: UserInfo, verb: string, target: Target): Grant | undefined
  /** @throws ApiError 403; 503 as `grantOf` */
  authorize(user: UserInfo, verb: string, target: Target): void
  /** @throws ApiError 503 as `grantOf` */
  allows(user: UserInfo, verb: string, target: Target): boolean
  /** Returns the rules that apply in a namespace, or cluster-wide without one. @throws ApiError 503 as `grantOf` */
  rulesOf(user: UserInfo, namespace: string | undefined): UserRules
  /** Calls back after each change of the roles or bindings. Returns a function that unsubscribes. */
  onChange(changed: () => void): () => void
}

/** Returns the verb of a request for objects that is not a watch, or undefined for a method that they never have. */
export function verbOf(method: string, on: 'collection' | 'object'): Verb | undefined {
  switch (method) {
    case 'GET':
    case 'HEAD':
      return on === 'object' ? 'get' : 'list'
    case 'POST':
      return 'create'
    case 'PUT':
      return 'update'
    case 'PATCH':
      return 'patch'
    case 'DELETE':
      return on === 'object' ? 'delete' : 'deletecollection'
    default:
      return undefined
  }
}
