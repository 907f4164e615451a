/**
 * The kinds of Kubernetes that the server has built in, each in a file of its own: a model, and rules that a model
 * cannot express. A further kind is one more file and one more line in the table.
 *
 * They are as Kubernetes 1.34 has them where clients notice: fields, validation, selectable fields and table columns.
 */
import { ServedModel } from '../../model/index.ts'
import type { BuiltInKind } from './built-in-kind.ts'
import { configMap } from './config-map.ts'
import { event } from './event.ts'
import { lease } from './lease.ts'
import { namespace } from './namespace.ts'
import { resourceQuota } from './resource-quota.ts'
import { secret } from './secret.ts'
import { serviceAccount } from './service-account.ts'

const kinds: readonly BuiltInKind[] = [
  namespace,
  configMap,
  secret,
  serviceAccount,
  event,
  lease,
  resourceQuota,
]

/** The built-in kinds of a server. */
export interface BuiltInKinds {
  readonly namespaces: ServedModel
  readonly serviceAccounts: ServedModel
  readonly resourceQuotas: ServedModel
  readonly all: readonly ServedModel[]
}

/** Returns the built-in kinds, not served yet. */
export function builtInKinds(): BuiltInKinds {
  const all = kinds.map(({ model, rules }) => ServedModel.builtIn(model, { rules }))
  const servedOf = (kind: BuiltInKind) => {
    const served = all.find(({ model }) => model === kind.model)
    if (served === undefined) throw new Error(`the kind ${kind.model.kind} is not in the table`)
    return served
  }
  return {
    namespaces: servedOf(namespace),
    serviceAccounts: servedOf(serviceAccount),
    resourceQuotas: servedOf(resourceQuota),
    all,
  }
}
