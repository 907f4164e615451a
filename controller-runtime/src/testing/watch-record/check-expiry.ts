import type { Violation } from './guarantees.ts'
import type { WatcherRecord } from './run-log.ts'
import { streamOf } from './stream.ts'

/** Whether a watcher was sent away only where what comes next was gone. */
export function checkExpiry({ name: seenBy, connections }: WatcherRecord): Violation[] {
  const violations: Violation[] = []
  for (const connection of connections) {
    for (const event of connection.events) {
      if (event.type !== 'ERROR') continue
      const { knows } = streamOf(connection)
      if (event.code === 410 && event.compacted > (knows ?? 0)) continue
      const compacted =
        event.compacted === 0 ? 'nothing was compacted' : `compaction got to ${event.compacted}`
      const message = `an ERROR ${event.code} (${event.message}) came to a watcher that knew version ${knows ?? 'nothing'}, and ${compacted}`
      violations.push({ guarantee: 'expiry', seenBy, message })
    }
  }
  return violations
}
