import type { CacheEvent, Entry, LogFollower, ModelCache } from '../../cache/index.ts'
import type { ServedModel } from '../../model/index.ts'
import type { RbacAuthorizer, RbacKey, RbacPolicy } from '../../security/index.ts'
import { type Fields, recordOf } from '../fields.ts'
import type { RbacKinds } from './rbac-kinds.ts'
import { readBinding, readRole } from './read-roles.ts'

type Set = (policy: RbacPolicy, key: RbacKey, fields: Fields | undefined) => void

const setRole: Set = (policy, key, fields) => policy.setRole(key, fields && readRole(fields))
const setBinding: Set = (policy, key, fields) =>
  policy.setBinding(key, fields && readBinding(fields, key.namespace))

/**
 * Keeps an authorizer's policy equal to the caches of the four kinds, which must be complete. The policy changes in the
 * same turn as a cache, so a decision sees what a read of the cache would see. Returns a function that ends it.
 */
export function followRoles(
  { roles, clusterRoles, roleBindings, clusterRoleBindings }: RbacKinds,
  follower: Pick<LogFollower, 'cacheOf'>,
  authorizer: RbacAuthorizer,
): () => void {
  const kinds: readonly (readonly [ModelCache, Set])[] = [
    [cacheOf(follower, roles), setRole],
    [cacheOf(follower, clusterRoles), setRole],
    [cacheOf(follower, roleBindings), setBinding],
    [cacheOf(follower, clusterRoleBindings), setBinding],
  ]
  const reset = () =>
    authorizer.update(policy => {
      policy.clear()
      for (const [cache, set] of kinds)
        cache.store.snapshot().objects.forEachValue(entry => {
          set(policy, keyOf(entry), fieldsOf(entry))
        })
    })
  const stops = kinds.map(([cache, set]) =>
    cache.observe({
      changed: ({ next, previous }: CacheEvent) => {
        const entry = next ?? previous
        if (entry !== undefined)
          authorizer.update(policy => set(policy, keyOf(entry), next && fieldsOf(next)))
      },
      reset,
    }),
  )
  reset()
  return () => {
    for (const stop of stops) stop()
  }
}

function cacheOf(follower: Pick<LogFollower, 'cacheOf'>, served: ServedModel): ModelCache {
  const cache = follower.cacheOf(served)
  if (cache === undefined) throw new Error(`${served.title} has no cache`)
  return cache
}

function keyOf({ namespace, name }: Entry): RbacKey {
  return { namespace, name }
}

function fieldsOf({ bytes }: Entry): Fields {
  return recordOf(JSON.parse(bytes.toString()))
}
