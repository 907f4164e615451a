import { isRecord, type Revision } from '@setpoint/controller-runtime/api'
import { decodeStored, objectsPrefix } from '../model/index.ts'
import { currentPages, type Storage } from '../storage/index.ts'

/** A `Plugin` object that says that the plugin has kinds of a group. */
export interface PluginClaim {
  readonly name: string
  /** The phase that a server wrote last. It stays when the plugin is uninstalled. */
  readonly phase: string
  /** True if it has kinds of other groups as well. */
  readonly hasOthers: boolean
  /** The key of the object, and its revision. */
  readonly key: string
  readonly modRevision: Revision
}

/** Returns the plugins that have kinds of a group, by their `Plugin` objects. @throws the store's errors */
export async function pluginsOfGroup(
  storage: Storage,
  { group, reservedDomain, signal }: { group: string; reservedDomain: string; signal: AbortSignal },
): Promise<PluginClaim[]> {
  const prefix = `${objectsPrefix}plugins.${reservedDomain}/plugins/`
  const claims: PluginClaim[] = []
  for await (const pairs of currentPages(storage, prefix, { signal }))
    for (const { key, value, modRevision } of pairs) {
      const { kinds, phase } = statusOf(value)
      // `<plural>.<group>`
      const groups = kinds.map(kind => kind.slice(kind.indexOf('.') + 1))
      if (!groups.includes(group)) continue
      const hasOthers = groups.some(each => each !== group)
      claims.push({ name: key.slice(prefix.length), phase, hasOthers, key, modRevision })
    }
  return claims
}

function statusOf(value: Buffer): { readonly kinds: readonly string[]; readonly phase: string } {
  let status: unknown
  try {
    status = decodeStored(value).object.status
  } catch {
    // `setpoint check` reports it.
  }
  const { kinds, phase } = isRecord(status) ? status : {}
  return {
    kinds: Array.isArray(kinds) ? kinds.filter(kind => typeof kind === 'string') : [],
    phase: typeof phase === 'string' ? phase : 'unknown',
  }
}
