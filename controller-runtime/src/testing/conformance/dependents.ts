import { isRecord } from '../../api/is-record.ts'
import type { Model } from '../../api/model.ts'
import { actionOf } from './call-action.ts'
import type { Call, Disturb } from './process-transport.ts'

/** A dependent that a process has created. */
interface Dependent {
  /** Of the object, without a query. */
  readonly path: string
  /** Describes the call that created it, for example "creating a part". */
  action(models: readonly Model[]): string
}

/**
 * Notes the dependents that a process creates. They are found in the responses, because a reconciler may create objects
 * of kinds that the suite does not know, such as Secrets.
 */
export class Dependents {
  readonly made: Dependent[] = []
  readonly #ownerUid: () => string

  constructor(ownerUid: () => string) {
    this.#ownerUid = ownerUid
  }

  readonly observe: Disturb = async (call, carryOut) => {
    const response = await carryOut()
    if (response.status === 201) this.#note(call, response.body)
    return response
  }

  #note(call: Call, body: string): void {
    const created: unknown = JSON.parse(body)
    if (!isRecord(created) || !isRecord(created.metadata)) return
    const { name, ownerReferences } = created.metadata
    if (typeof name !== 'string' || !Array.isArray(ownerReferences)) return
    const uid = this.#ownerUid()
    if (!ownerReferences.some(owner => isRecord(owner) && owner.uid === uid)) return
    const path = call.method === 'POST' ? `${call.path}/${encodeURIComponent(name)}` : call.path
    this.made.push({ path, action: models => actionOf(call, models) })
  }
}
