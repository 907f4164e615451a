import {
  type ChangeType,
  initialEventsEndAnnotation,
  type Revision,
  type Status,
} from '@setpoint/controller-runtime/api'
import type { CacheEvent } from '../cache/index.ts'
import type { ServedModel } from '../model/served-model.ts'
import { withVersion } from '../registry/index.ts'

const tail = Buffer.from('}')
const heads: Record<ChangeType, Buffer> = {
  ADDED: Buffer.from('{"type":"ADDED","object":'),
  MODIFIED: Buffer.from('{"type":"MODIFIED","object":'),
  DELETED: Buffer.from('{"type":"DELETED","object":'),
}

/** One event as it goes over the wire. `object` is the object's wire JSON. */
export function changeFrame(type: ChangeType, object: Buffer): Buffer {
  return Buffer.concat([heads[type], object, tail])
}

/** A BOOKMARK: everything up to `revision` has been sent. */
export function bookmarkFrame(served: ServedModel, revision: Revision, endsInitialEvents = false): Buffer {
  const version = String(revision)
  const metadata = {
    version,
    resourceVersion: version,
    ...(endsInitialEvents && { annotations: { [initialEventsEndAnnotation]: 'true' } }),
  }
  const { apiVersion, kind } = served.model
  return Buffer.from(JSON.stringify({ type: 'BOOKMARK', object: { apiVersion, kind, metadata } }))
}

export function errorFrame(status: Status): Buffer {
  return Buffer.from(JSON.stringify({ type: 'ERROR', object: status }))
}

/** The frames of one change, each encoded at most once for all subscriptions. */
export class ChangeFrames {
  readonly event: CacheEvent
  readonly #served: ServedModel
  readonly #frames: Partial<Record<ChangeType, Buffer>> = {}

  constructor(served: ServedModel, event: CacheEvent) {
    this.#served = served
    this.event = event
  }

  /** A DELETED frame carries the last content with the version of the change that ended it. */
  of(type: ChangeType): Buffer {
    const known = this.#frames[type]
    if (known !== undefined) return known
    const { next, previous, revision } = this.event
    const entry = type === 'DELETED' ? previous : next
    if (entry === undefined) throw new Error(`a change at ${revision} has no ${type} frame`)
    const object =
      type === 'DELETED'
        ? withVersion(this.#served, entry.name, entry.bytes, entry.revision, revision)
        : entry.bytes
    const frame = changeFrame(type, object)
    this.#frames[type] = frame
    return frame
  }
}
