import type { UserInfo } from '@setpoint/controller-runtime'
import type { AuditSubject } from '../audit/index.ts'
import type { Identity } from '../security/index.ts'
import { attributesOfPath, targetOf } from './request-attributes.ts'
import type { ResourceRequest } from './request-state.ts'

/** What the audit log records about a request for objects. */
export function subjectOfObjects(request: ResourceRequest): AuditSubject {
  const { served, path, verb } = request
  return { verb, target: targetOf(request), version: path.version, isSensitive: served.model.sensitive }
}

/**
 * What the audit log records about a path that names no kind. As in Kubernetes, a path in the form of a resource counts as
 * one, also if it is a route of a plugin.
 */
export function subjectOfPath(path: string, method: string): AuditSubject {
  try {
    const { verb, target } = attributesOfPath(method, path)
    const version = path.split('/', 4)[path.startsWith('/api/') ? 2 : 3]
    return { verb, target, version, isSensitive: false }
  } catch {
    // A segment that cannot be decoded.
    return { verb: method.toLowerCase(), target: path, isSensitive: false }
  }
}

/** The same for a watch of a path that names no kind. */
export function subjectOfWatchedPath(path: string): AuditSubject {
  const subject = subjectOfPath(path, 'GET')
  return typeof subject.target === 'string' ? subject : { ...subject, verb: 'watch' }
}

/** Returns the caller of a request, and the user that the caller impersonates. */
export function callersOf({
  user,
  impersonator,
  impersonated = user,
}: Identity): [caller: UserInfo, impersonated: UserInfo | undefined] {
  return impersonator === undefined ? [user, undefined] : [impersonator.user, impersonated]
}
