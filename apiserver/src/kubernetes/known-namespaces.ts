import { ApiError, nameOfKey, type ObjectKey, splitObjectKey } from '@setpoint/controller-runtime/api'
import type { LogFollower } from '../cache/index.ts'
import { decodeStored, IndexSet, type ServedModel, valuesAt } from '../model/index.ts'
import { type Namespaces, notFound, unreadable, withApiErrors } from '../registry/index.ts'
import { type Compare, type Storage, undecrypted } from '../storage/index.ts'

/** The namespaces of the store, for the registry. Every refusal rests on a live read. */
export class KnownNamespaces implements Namespaces {
  readonly #kind: ServedModel
  readonly #storage: Storage
  readonly #follower: Pick<LogFollower, 'entryOf'>

  constructor(parts: { kind: ServedModel; storage: Storage; follower: Pick<LogFollower, 'entryOf'> }) {
    this.#kind = parts.kind
    this.#storage = parts.storage
    this.#follower = parts.follower
  }

  async admit(served: ServedModel, key: ObjectKey, isLive: boolean): Promise<Compare> {
    const { namespace = '' } = splitObjectKey(key)
    const cached = isLive ? undefined : this.#follower.entryOf(this.#kind, namespace)
    if (cached !== undefined && valuesAt(cached, IndexSet.deletionTimestamp).length === 0)
      return { key: this.#kind.keyOf(namespace), modRevision: cached.revision }
    const { pair } = await withApiErrors(this.#storage.get(this.#kind.keyOf(namespace)))
    if (pair === undefined) throw notFound(this.#kind, namespace)
    const failure = undecrypted(pair)
    if (failure !== undefined) throw unreadable(this.#kind, namespace, failure.message)
    const { metadata } = decodeStored(pair.value).object
    if (metadata.deletionTimestamp !== undefined) throw terminating(served, key, namespace)
    return { key: pair.key, modRevision: pair.modRevision }
  }
}

/** As Kubernetes' plugin NamespaceLifecycle. */
function terminating({ title, model }: ServedModel, key: ObjectKey, namespace: string): ApiError {
  const name = nameOfKey(key)
  return new ApiError(
    'Forbidden',
    `${title} ${JSON.stringify(name)} is forbidden: unable to create new content in namespace ${namespace} because it is being terminated`,
    {
      group: model.group,
      kind: model.plural,
      name,
      causes: [
        {
          reason: 'NamespaceTerminating',
          message: `namespace ${namespace} is being terminated`,
          field: 'metadata.namespace',
        },
      ],
    },
  )
}
