import type { Violation } from './guarantees.ts'
import type { WatcherRecord } from './run-log.ts'
import { streamOf } from './stream.ts'

/** Checks that a watcher received 410 only after a compaction. */
export function checkExpiry({ name: seenBy, connections }: WatcherRecord): Violation[] {
  const violations: Violation[] = []
  for (const connection of connections) {
    for (const event of connection.events) {
      if (event.type !== 'ERROR') continue
      const { knows } = streamOf(connection)
      if (event.code === 410 && event.compacted > (knows ?? 0)) continue
      const compacted =
        event.compacted === 0 ? 'nothing was compacted' : `the history was compacted to ${event.compacted}`
      const message = `a watcher that knew version ${knows ?? 'nothing'} received ERROR ${event.code} (${event.message}), but ${compacted}`
      violations.push({ guarantee: 'expiry', seenBy, message })
    }
  }
  return violations
}
