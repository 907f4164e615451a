import {
  type ChangeType,
  initialEventsEndAnnotation,
  type Revision,
  type Status,
} from '@setpoint/controller-runtime/api'
import type { CacheEvent } from '../cache/index.ts'
import type { ServedModel } from '../model/index.ts'
import { withVersion } from '../model/index.ts'

/** One event of a watch, before a codec gives it the form of a transport. */
export interface WireEvent {
  readonly type: ChangeType | 'BOOKMARK' | 'ERROR'
  /** The object's wire JSON. */
  readonly object: Buffer
  /** The version to resume from after this event; undefined for initial events and errors. */
  readonly version: Revision | undefined
}

/** A BOOKMARK: everything up to `revision` has been sent. */
export function bookmarkEvent(
  { model }: ServedModel,
  revision: Revision,
  endsInitialEvents = false,
): WireEvent {
  const version = String(revision)
  const { apiVersion, kind } = model
  const metadata = {
    version,
    resourceVersion: version,
    ...(endsInitialEvents && { annotations: { [initialEventsEndAnnotation]: 'true' } }),
  }
  const object = Buffer.from(JSON.stringify({ apiVersion, kind, metadata }))
  return { type: 'BOOKMARK', object, version: revision }
}

export function errorEvent(status: Status): WireEvent {
  return { type: 'ERROR', object: Buffer.from(JSON.stringify(status)), version: undefined }
}

/** The events of one change, each made at most once for all subscriptions. */
export class ChangeEvents {
  readonly change: CacheEvent
  readonly #served: ServedModel
  readonly #events: Partial<Record<ChangeType, WireEvent>> = {}

  constructor(served: ServedModel, change: CacheEvent) {
    this.#served = served
    this.change = change
  }

  /** A DELETED event carries the last content with the version of the change that ended it. */
  of(type: ChangeType): WireEvent {
    const known = this.#events[type]
    if (known !== undefined) return known
    const { next, previous, revision } = this.change
    const entry = type === 'DELETED' ? previous : next
    if (entry === undefined) throw new Error(`a change at ${revision} has no object for ${type}`)
    const object =
      type === 'DELETED'
        ? withVersion(this.#served, entry.name, entry.bytes, entry.revision, revision)
        : entry.bytes
    const event: WireEvent = { type, object, version: revision }
    this.#events[type] = event
    return event
  }
}
