import {
  type ChangeType,
  initialEventsEndAnnotation,
  type Revision,
  type Status,
} from '@setpoint/controller-runtime/api'
import type { CacheEvent, Entry, ModelCache } from '../cache/index.ts'
import { type ServedVersion, withVersion } from '../model/index.ts'

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
  { apiVersion, kind }: ServedVersion,
  revision: Revision,
  endsInitialEvents = false,
): WireEvent {
  const version = String(revision)
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
  readonly #cache: Pick<ModelCache, 'bytesOf'>
  readonly #events = new Map<ServedVersion, Partial<Record<ChangeType, WireEvent>>>()

  constructor(cache: Pick<ModelCache, 'bytesOf'>, change: CacheEvent) {
    this.#cache = cache
    this.change = change
  }

  /**
   * A DELETED event carries the last content with the version of the change that ended it.
   * @throws ConversionError; ConversionNeeded
   */
  of(type: ChangeType, version: ServedVersion): WireEvent {
    let events = this.#events.get(version)
    if (events === undefined) {
      events = {}
      this.#events.set(version, events)
    }
    const known = events[type]
    if (known !== undefined) return known
    const { revision } = this.change
    const entry = shownEntry(this.change, type)
    const bytes = this.#cache.bytesOf(entry, version)
    const object =
      type === 'DELETED' ? withVersion(version, entry.name, bytes, entry.revision, revision) : bytes
    const event: WireEvent = { type, object, version: revision }
    events[type] = event
    return event
  }
}

/** Returns the entry that the event of a change shows. */
export function shownEntry({ next, previous, revision }: CacheEvent, type: ChangeType): Entry {
  const entry = type === 'DELETED' ? previous : next
  if (entry === undefined) throw new Error(`a change at ${revision} has no object for ${type}`)
  return entry
}
