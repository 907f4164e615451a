import type { UserInfo } from '@setpoint/controller-runtime'
import { ApiError } from '@setpoint/controller-runtime/api'
import { builtInGroups } from './access.ts'

/** The verbs of Kubernetes' RBAC. */
export type Verb = 'get' | 'list' | 'watch' | 'create' | 'update' | 'patch' | 'delete' | 'deletecollection'

const readingVerbs: ReadonlySet<Verb> = new Set<Verb>(['get', 'list', 'watch'])

/**
 * Checks that a group of the user allows a request.
 * @param what the resource or path for the message, such as `probes.uptime.example.com`.
 * @throws ApiError 403
 */
export function authorize({ name, groups }: UserInfo, verb: Verb, what: string): void {
  if (groups.includes(builtInGroups.admins)) return
  if (readingVerbs.has(verb) && groups.includes(builtInGroups.viewers)) return
  throw new ApiError('Forbidden', `${JSON.stringify(name)} may not ${verb} ${what}`)
}

/** Returns the verb of a request that is not a watch. */
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
