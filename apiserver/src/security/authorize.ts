import type { UserInfo } from '@setpoint/controller-runtime'
import { ApiError } from '@setpoint/controller-runtime/api'
import { builtInGroups } from './access.ts'

/** What a request does, in the words of Kubernetes' RBAC. */
export type Verb = 'get' | 'list' | 'watch' | 'create' | 'update' | 'patch' | 'delete' | 'deletecollection'

const readingVerbs: ReadonlySet<Verb> = new Set<Verb>(['get', 'list', 'watch'])

/**
 * Checks that a user may do something. What no group of his allows is not allowed.
 * @param what for the message: `probes.uptime.example.com`, or a path.
 * @throws ApiError 403
 */
export function authorize({ name, groups }: UserInfo, verb: Verb, what: string): void {
  if (groups.includes(builtInGroups.admins)) return
  if (readingVerbs.has(verb) && groups.includes(builtInGroups.viewers)) return
  throw new ApiError('Forbidden', `${JSON.stringify(name)} may not ${verb} ${what}`)
}

/** What a request on objects does. */
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
