import { parseRevision, type Revision } from '@setpoint/controller-runtime/api'
import type { EventTamper } from '@setpoint/controller-runtime/testing'
import { watchEventOf } from '../support/record.ts'

/** A fault that is planted on purpose. */
export interface Plant {
  readonly tamper: EventTamper
  /** To be called with each event that the watcher has received. */
  received(frame: string): void
  /** Version of the dropped event, once there is one. */
  readonly version: Revision | undefined
}

/** Number of events of a watch before the dropped one, so that it is well past the start. */
const before = 20

/**
 * Drops one event, each time that it is sent. It is never ADDED, which could be part of the initial state. If the
 * watcher relists before it receives a later event, it has missed nothing, and another event is dropped instead.
 */
export function dropOne(): Plant {
  let version: Revision | undefined
  let isMissed = false
  return {
    get version() {
      return version
    },
    tamper: (frame, nth) => {
      const event = watchEventOf(frame)
      if (event.type === 'ERROR') return [frame]
      const own = parseRevision(event.object.metadata.version)
      const mayBeInitial = event.type === 'ADDED' || event.type === 'BOOKMARK'
      if (version === undefined && nth >= before && !mayBeInitial) version = own
      return own === version && !mayBeInitial ? [] : [frame]
    },
    // An event that was sent may be lost with its connection.
    received: frame => {
      const event = watchEventOf(frame)
      if (event.type === 'ERROR') {
        if (!isMissed) version = undefined
      } else if (version !== undefined && parseRevision(event.object.metadata.version) > version)
        isMissed = true
    },
  }
}
