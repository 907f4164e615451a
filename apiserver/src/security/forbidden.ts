import type { UserInfo } from '@setpoint/controller-runtime'
import { ApiError } from '@setpoint/controller-runtime/api'
import type { Target } from './authorize.ts'

/** Returns the error of a user who may not do something, as Kubernetes words it. */
export function forbidden({ name: user }: UserInfo, verb: string, target: Target): ApiError {
  const who = `User ${JSON.stringify(user)} cannot ${verb}`
  if (typeof target === 'string')
    return new ApiError('Forbidden', `forbidden: ${who} path ${JSON.stringify(target)}`)
  const { group, plural, subresource, namespace, name } = target
  const resource = subresource === undefined ? plural : `${plural}/${subresource}`
  const where =
    namespace === undefined ? 'at the cluster scope' : `in the namespace ${JSON.stringify(namespace)}`
  const why = `${who} resource ${JSON.stringify(resource)} in API group ${JSON.stringify(group)} ${where}`
  return forbiddenObject({ group, plural, name }, why)
}

/** Returns a 403 about an object or collection. */
export function forbiddenObject(
  { group, plural, name }: { group: string; plural: string; name: string | undefined },
  why: string,
): ApiError {
  const title = group === '' ? plural : `${plural}.${group}`
  const subject = name === undefined ? title : `${title} ${JSON.stringify(name)}`
  const details = { group, kind: plural, name }
  return new ApiError('Forbidden', `${subject} is forbidden: ${why}`, details)
}
