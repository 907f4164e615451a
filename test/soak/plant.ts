import { parseRevision, type Revision } from '@setpoint/controller-runtime/api'
import type { EventTamper } from '@setpoint/controller-runtime/testing'
import { watchEventOf } from '../support/record.ts'

/** A fault that is put in on purpose. */
export interface Plant {
  readonly tamper: EventTamper
  /** Of the event that is kept back, once there is one. */
  readonly version: Revision | undefined
}

/** Events of a watch before the one that is dropped: enough that it is in the middle of things. */
const before = 20

/**
 * Keeps one event back, also when it is sent again to a watcher that comes back. None that is ADDED: that could be a
 * part of the initial state. A watcher that has to begin anew before it is told of anything later has missed nothing:
 * then another event is kept back.
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
      if (event.type === 'ERROR') {
        if (!isMissed) version = undefined
        return [frame]
      }
      const own = parseRevision(event.object.metadata.version)
      const mayBeInitial = event.type === 'ADDED' || event.type === 'BOOKMARK'
      if (version === undefined && nth >= before && !mayBeInitial) version = own
      if (own === version && !mayBeInitial) return []
      if (version !== undefined && own > version) isMissed = true
      return [frame]
    },
  }
}
