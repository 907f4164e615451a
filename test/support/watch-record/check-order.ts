import type { Revision } from '@setpoint/controller-runtime/api'
import type { Violation } from './guarantees.ts'
import type { WatcherRecord } from './run-log.ts'
import { type Session, sessionsOf } from './stream.ts'

/** Checks the order of versions, which needs no knowledge of the true history. */
export function checkOrder(watcher: WatcherRecord): Violation[] {
  return sessionsOf(watcher).flatMap(session => checkSession(watcher.name, session))
}

function checkSession(seenBy: string, session: Session): Violation[] {
  const violations: Violation[] = []
  let seen = new Set<Revision>()
  let highest: Revision | undefined
  for (const { connection, initialVersion, live } of session) {
    const { start } = connection
    // A client may resume from an earlier version and see events again.
    if (start !== 'present' && highest !== undefined && highest > start) {
      seen = new Set([...seen].filter(version => version <= start))
      highest = start
    }
    let last: Revision | undefined
    let bookmark = initialVersion
    for (const event of live) {
      if (event.type === 'ERROR') continue
      const { type, version } = event
      if (type === 'BOOKMARK') {
        const highest = Math.max(bookmark ?? 0, last ?? 0)
        if (version < highest) {
          const message = `a bookmark of version ${version} followed version ${highest}`
          violations.push({ guarantee: 'bookmarkable', seenBy, message })
        } else bookmark = version
        continue
      }
      const what = `${type} ${event.name} of version ${version}`
      if (seen.has(version)) {
        violations.push({ guarantee: 'unique', seenBy, message: `${what} was sent twice` })
      } else if (start !== 'present' && version <= start) {
        const message = `${what} was sent on a watch that was resumed from version ${start}`
        violations.push({ guarantee: 'resumable', seenBy, message })
      } else if (bookmark !== undefined && version <= bookmark) {
        const message = `${what} was sent after a bookmark of version ${bookmark}`
        violations.push({ guarantee: 'bookmarkable', seenBy, message })
      } else if (last !== undefined && version < last) {
        violations.push({ guarantee: 'ordered', seenBy, message: `${what} was sent after version ${last}` })
      }
      seen.add(version)
      if (highest === undefined || version > highest) highest = version
      if (last === undefined || version > last) last = version
    }
  }
  return violations
}
