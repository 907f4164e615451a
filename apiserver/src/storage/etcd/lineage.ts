import type { Logger } from '@setpoint/controller-runtime'
import { laterRevision, type Revision, zeroRevision } from '@setpoint/controller-runtime/api'
import type { IKeyValue } from 'etcd3'
import { WrongStoreError } from '../contract.ts'

/**
 * The history of the store that a process has followed. A store that goes back, or whose tip was another one, was
 * restored from a backup or replaced. From then on everything is refused, until an operator restarts the server: its
 * clients would take the objects that are missing for deleted.
 *
 * Only linearizable reads, transactions and delivered changes count: a lagging member may respond to others with less.
 */
export class Lineage {
  /** The tip at the position of the watch of the whole log. Its value identifies the transaction that put it. */
  tip?: { readonly position: Revision; readonly pair: IKeyValue | undefined }
  readonly #log: Logger | undefined
  #seen: Revision = zeroRevision
  #replaced: WrongStoreError | undefined

  constructor(log?: Logger) {
    this.#log = log
  }

  /** The highest revision of any response. A transaction that is sent now can only happen above it. */
  get seen(): Revision {
    return this.#seen
  }

  /** @throws WrongStoreError if the store was found to be another one */
  check(): void {
    if (this.#replaced !== undefined) throw this.#replaced
  }

  /**
   * Takes the revision of the store in a response.
   * @param before `seen` when the request was sent
   * @throws WrongStoreError if the store has gone back
   */
  saw(revision: Revision, before: Revision): void {
    this.#seen = laterRevision(this.#seen, revision)
    if (revision < before) throw this.isReplaced(`it is at revision ${revision} and was at ${before}`)
  }

  /** Returns the error for a store that is not the one that was followed. */
  isReplaced(why: string): WrongStoreError {
    if (this.#replaced === undefined) {
      this.#replaced = new WrongStoreError(
        `the store was replaced or restored: ${why}. To go on with it, restart the server`,
      )
      this.#log?.error({ err: this.#replaced }, 'refusing all requests')
    }
    return this.#replaced
  }
}
