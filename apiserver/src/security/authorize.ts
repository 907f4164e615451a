import type { UserInfo } from '@setpoint/controller-runtime'
import { ApiError } from '@setpoint/controller-runtime/api'
import { builtInGroups } from './access.ts'

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

/** Decides what callers may do. */
export interface Authorizer {
  /**
   * Checks that a user may do something. Every check of the server is a call of this method.
   * @param target objects, or a path that is not about objects; its verb is the method in lower case.
   * @throws ApiError 403
   */
  authorize(user: UserInfo, verb: string, target: ResourceTarget | string): void
}

const readingVerbs: ReadonlySet<string> = new Set(['get', 'list', 'watch', 'head'])

/** Allows by the built-in groups. */
export class GroupAuthorizer implements Authorizer {
  authorize({ name, groups }: UserInfo, verb: string, target: ResourceTarget | string): void {
    if (groups.includes(builtInGroups.admins)) return
    if (readingVerbs.has(verb) && groups.includes(builtInGroups.viewers)) return
    throw new ApiError('Forbidden', `${JSON.stringify(name)} may not ${verb} ${titleOf(target)}`)
  }
}

function titleOf(target: ResourceTarget | string): string {
  if (typeof target === 'string') return target
  return target.group === '' ? target.plural : `${target.plural}.${target.group}`
}

/** Returns the verb of a request for objects that is not a watch. */
export function verbOf(method: string, on: 'collection' | 'object'): Verb {
  switch (method) {
    case 'POST':
      return 'create'
    case 'PUT':
      return 'update'
    case 'PATCH':
      return 'patch'
    case 'DELETE':
      return on === 'object' ? 'delete' : 'deletecollection'
    default:
      return on === 'object' ? 'get' : 'list'
  }
}
