import { defineModel, type Model } from '../api/model.ts'
import { checkName } from '../api/names.ts'
import type { ApiObject } from '../api/object.ts'
import type { Client } from '../client/client.ts'
import { readLive } from './read-live.ts'

/** Records an owner that was deleted with orphans while some kinds did not respond. */
export interface OrphanRecord extends ApiObject<OrphanRecordSpec, Record<string, unknown>> {}

/** The owner, and the kinds whose objects must release it. */
export interface OrphanRecordSpec {
  /** As referenced by its dependents. */
  owner: { apiVersion: string; kind: string; namespace?: string; name: string; uid: string }
  /** The kinds that did not respond, as `<group>/<plural>`. */
  kinds: string[]
}

/**
 * The built-in kind for owners that were deleted with orphans while some kinds did not respond. An object is named by
 * the owner's uid.
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
            description: 'The owner, as referenced by its dependents.',
            required: ['apiVersion', 'kind', 'name', 'uid'],
            properties: {
              apiVersion: { type: 'string' },
              kind: { type: 'string' },
              namespace: { type: 'string' },
              name: { type: 'string' },
              uid: { type: 'string' },
            },
          },
          kinds: {
            type: 'array',
            items: { type: 'string' },
            description:
              'The kinds that did not respond, as <group>/<plural>; their objects may still reference the owner.',
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
 * Stores the owners of deletions with orphans that completed without kinds that did not respond, so that the objects of
 * these kinds are released rather than deleted later. A record is written before the owner is removed.
 */
export class OrphanRecords {
  readonly model: Model<OrphanRecord>
  readonly #client: Client

  constructor(client: Client, reservedDomain: string) {
    this.#client = client
    this.model = orphanRecordModel(reservedDomain)
  }

  async write(
    owner: OrphanRecordSpec['owner'],
    kinds: readonly string[],
    signal: AbortSignal,
  ): Promise<void> {
    await this.#client.createOrUpdate(
      this.model,
      owner.uid,
      draft => {
        draft.spec.owner = owner
        draft.spec.kinds = [...new Set([...(draft.spec.kinds ?? []), ...kinds])]
      },
      { signal },
    )
  }

  /** Returns true if an owner has a record, by a live read. @throws ApiError, TransportError if unknown. */
  async has(uid: string, signal: AbortSignal): Promise<boolean> {
    // A reference may have any uid; that of a stored object is a valid name.
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
