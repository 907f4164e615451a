import { defineModel, type Model } from '../api/model.ts'
import { checkName } from '../api/names.ts'
import type { ApiObject, OwnerReference } from '../api/object.ts'
import type { Client } from '../client/client.ts'
import { readLive } from './live.ts'

/** An owner that was deleted with orphans while kinds did not answer. */
export interface OrphanRecord extends ApiObject<OrphanRecordSpec, Record<string, unknown>> {}

/** Whose dependents are to be let go, and of which kinds. */
export interface OrphanRecordSpec {
  /** As its dependents name it. */
  owner: { apiVersion: string; kind: string; name: string; uid: string }
  /** Those that did not answer, as `<group>/<plural>`. */
  kinds: string[]
}

/**
 * The kind by which the collector remembers owners that were deleted with orphans while kinds did not answer. The server
 * serves it beside the kinds of plugins. An object is named by the owner's uid.
 */
export function orphanRecordModel(reservedDomain: string): Model<OrphanRecord> {
  return defineModel({
    group: `collector.${reservedDomain}`,
    version: 'v1',
    kind: 'OrphanRecord',
    singular: 'orphanrecord',
    plural: 'orphanrecords',
    schema: {
      spec: {
        type: 'object',
        required: ['owner', 'kinds'],
        properties: {
          owner: {
            type: 'object',
            description: 'As its dependents name it.',
            required: ['apiVersion', 'kind', 'name', 'uid'],
            properties: {
              apiVersion: { type: 'string' },
              kind: { type: 'string' },
              name: { type: 'string' },
              uid: { type: 'string' },
            },
          },
          kinds: {
            type: 'array',
            items: { type: 'string' },
            description:
              'Those that did not answer, as <group>/<plural>: their objects may name the owner still.',
          },
        },
      },
    },
    indexes: [],
    printerColumns: [
      { name: 'Owner', type: 'string', jsonPath: '.spec.owner.name' },
      { name: 'Kind', type: 'string', jsonPath: '.spec.owner.kind' },
      { name: 'Missing', type: 'string', jsonPath: '.spec.kinds' },
    ],
  })
}

/**
 * What is left of deletions with orphans that went on without kinds that did not answer: by it their objects are let go
 * rather than collected, whenever they come back. It is written before the owner goes.
 */
export class OrphanRecords {
  readonly model: Model<OrphanRecord>
  readonly #client: Client

  constructor(client: Client, reservedDomain: string) {
    this.#client = client
    this.model = orphanRecordModel(reservedDomain)
  }

  async write(owner: OwnerReference, kinds: readonly string[], signal: AbortSignal): Promise<void> {
    const { apiVersion, kind, name, uid } = owner
    await this.#client.createOrUpdate(
      this.model,
      uid,
      draft => {
        draft.spec.owner = { apiVersion, kind, name, uid }
        draft.spec.kinds = [...new Set([...(draft.spec.kinds ?? []), ...kinds])]
      },
      { signal },
    )
  }

  /** Whether there is one of an owner, by a live read. @throws ApiError, TransportError where that cannot be said. */
  async has(uid: string, signal: AbortSignal): Promise<boolean> {
    // A reference may say anything; an object that was ever stored has a uid that is a name.
    if (checkName(uid) !== undefined) return false
    return (await readLive(this.#client, this.model, uid, signal)) !== undefined
  }

  async list(signal: AbortSignal): Promise<readonly OrphanRecord[]> {
    return (await this.#client.list(this.model, { signal })).items
  }

  async remove({ metadata: { name, uid, version } }: OrphanRecord, signal: AbortSignal): Promise<void> {
    await this.#client.delete(this.model, name, { preconditions: { uid, version }, signal })
  }
}
