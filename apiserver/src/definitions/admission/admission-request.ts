import type { UserInfo } from '@setpoint/controller-runtime'
import type { JsonObject, ServedVersion } from '../../model/index.ts'
import type { AdmissionAttributes } from './attributes.ts'

/** Returns the fields of Kubernetes' `AdmissionRequest` that do not depend on the webhook, without the objects. */
export function admissionRequestOf(attributes: AdmissionAttributes, version: ServedVersion): JsonObject {
  const { resource, subresource, name, namespace, operation, request, form } = attributes
  const { dryRun, sentOptions } = request.options
  const sub = subresource !== ''
  const options = `${optionNames[operation]}Options`
  return {
    kind: kindOf(form ?? typeOf(version)),
    resource: resourceOf(version, resource),
    ...(sub && { subResource: subresource }),
    requestKind: kindOf(form ?? typeOf(attributes.version)),
    requestResource: resourceOf(attributes.version, resource),
    ...(sub && { requestSubResource: subresource }),
    ...(name !== '' && { name }),
    ...(namespace !== '' && { namespace }),
    operation,
    userInfo: userInfoOf(request.user),
    dryRun,
    options: { kind: options, apiVersion: 'meta.k8s.io/v1', ...sentOptions?.() },
  }
}

const optionNames = { CREATE: 'Create', UPDATE: 'Update', DELETE: 'Delete' } as const

function kindOf({ group, version, kind }: KindName): JsonObject {
  return { group, version, kind }
}

interface KindName {
  readonly group: string
  readonly version: string
  readonly kind: string
}

function typeOf({ group, name: version, kind }: ServedVersion): KindName {
  return { group, version, kind }
}

function resourceOf({ group, name: version }: ServedVersion, resource: string): JsonObject {
  return { group, version, resource }
}

function userInfoOf({ name: username, uid, groups, extra }: UserInfo): JsonObject {
  const hasExtra = extra !== undefined && Object.keys(extra).length > 0
  return {
    ...(username !== '' && { username }),
    ...(uid && { uid }),
    ...(groups.length > 0 && { groups: [...groups] }),
    ...(hasExtra && { extra }),
  }
}
