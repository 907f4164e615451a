import { isRecord } from '../api/is-record.ts'
import { type KeysOf, unknownKeys } from '../api/known-keys.ts'

/** What a plugin needs, as a rule of a `ClusterRole`. */
export interface PluginPermission {
  /** `''` is the core group, `'*'` every group. */
  readonly apiGroups: readonly string[]
  /** Plurals, `<plural>/<subresource>`, or `'*'`. */
  readonly resources: readonly string[]
  /** For example `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`. */
  readonly verbs: readonly string[]
  /** Names of objects. Default: all. */
  readonly resourceNames?: readonly string[]
}

const permissionKeys: KeysOf<PluginPermission> = {
  apiGroups: true,
  resources: true,
  verbs: true,
  resourceNames: true,
}

/** @throws TypeError that names every mistake */
export function checkPermissions(plugin: string, permissions: unknown): void {
  if (!Array.isArray(permissions)) throw new TypeError(`plugin ${plugin}: permissions must be an array`)
  const problems = permissions.flatMap((permission: unknown, at) =>
    problemsOf(permission, `permissions[${at}]`),
  )
  if (problems.length > 0) throw new TypeError(`plugin ${plugin}: ${problems.join('; ')}`)
}

function problemsOf(permission: unknown, place: string): string[] {
  if (!isRecord(permission)) return [`${place} must be { apiGroups, resources, verbs }`]
  const problems = unknownKeys(permission, permissionKeys, place)
  for (const field of ['apiGroups', 'resources', 'verbs', 'resourceNames'] as const) {
    const given: unknown = permission[field]
    if (given === undefined && field === 'resourceNames') continue
    if (!Array.isArray(given) || given.length === 0 || !given.every(each => typeof each === 'string'))
      problems.push(`${place}.${field} must be a non-empty array of strings`)
  }
  return problems
}
