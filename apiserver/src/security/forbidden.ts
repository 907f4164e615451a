import type { UserInfo } from '@setpoint/controller-runtime'
import { ApiError } from '@setpoint/controller-runtime/api'
import { echoName, quote } from '@setpoint/controller-runtime/internal'
import type { Target } from './authorize.ts'

/** Returns the error of a user who may not do something, as Kubernetes words it. */
export function forbidden({ name: user }: UserInfo, verb: string, target: Target): ApiError {
  const who = `User ${quoteName(user)} cannot ${verb}`
  if (typeof target === 'string') return new ApiError('Forbidden', `forbidden: ${who} path ${quote(target)}`)
  const { group, plural, subresource, namespace, name } = target
  const resource = subresource === undefined ? plural : `${plural}/${subresource}`
  const where = namespace === undefined ? 'at the cluster scope' : `in the namespace ${quoteName(namespace)}`
  const why = `${who} resource ${quoteName(resource)} in API group ${quoteName(group)} ${where}`
  return forbiddenObject({ group, plural, name }, why)
}

/** Returns a 403 about an object or collection. */
export function forbiddenObject(
  { group, plural, name }: { group: string; plural: string; name: string | undefined },
  why: string,
): ApiError {
  const details = { group: echoName(group), kind: echoName(plural), name: name && echoName(name) }
  const title = group === '' ? details.kind : `${details.kind}.${details.group}`
  const subject = details.name === undefined ? title : `${title} ${JSON.stringify(details.name)}`
  return new ApiError('Forbidden', `${subject} is forbidden: ${why}`, details)
}

function quoteName(name: string): string {
  return JSON.stringify(echoName(name))
}
