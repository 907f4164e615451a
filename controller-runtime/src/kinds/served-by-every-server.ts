import type { Model } from '../api/model.ts'
import { ConfigMap } from './config-map.ts'
import { Event } from './event.ts'
import { Lease } from './lease.ts'
import { Namespace } from './namespace.ts'
import { Secret } from './secret.ts'
import { ServiceAccount } from './service-account.ts'

/** The kinds of this room. */
export const kindsOfEveryServer: readonly Pick<Model, 'group' | 'kind' | 'plural' | 'singular'>[] = [
  ConfigMap,
  Event,
  Lease,
  Namespace,
  Secret,
  ServiceAccount,
]

/** Returns true for a kind of this room. Compares names, since the model may come from another copy of the SDK. */
export function isServedByEveryServer({ group, kind }: Pick<Model, 'group' | 'kind'>): boolean {
  return kindsOfEveryServer.some(each => each.group === group && each.kind === kind)
}

/** Throws a TypeError if a list of kinds to serve has some of this room. `subject` names the declaration. */
export function refuseBuiltInKinds(models: readonly Model[], subject: string): void {
  const kinds = [...new Set(models.filter(isServedByEveryServer).map(({ kind }) => kind))]
  if (kinds.length === 0) return
  const names = new Intl.ListFormat('en-GB').format(kinds)
  const [are, them] = kinds.length === 1 ? ['is', 'it'] : ['are', 'them']
  throw new TypeError(`${subject}: ${names} ${are} served by every server; leave ${them} out of models`)
}
