import type { Revision } from '@setpoint/controller-runtime/api'
import type { ChangeRecord, ConnectionRecord, WatcherRecord } from './run-log.ts'

/** The two phases of a connection, and what its client knew at its end. */
export interface Stream {
  readonly connection: ConnectionRecord
  /** Events before the bookmark that ends the initial events; empty if the watch was resumed. */
  readonly initial: readonly ChangeRecord[]
  /** The version of that bookmark; undefined if it never arrived, or the watch was resumed. */
  readonly initialVersion: Revision | undefined
  /** The events after it, including bookmarks and errors. */
  readonly live: ConnectionRecord['events']
  /** The version up to which the client knows all changes; undefined if the initial events did not end. */
  readonly knows: Revision | undefined
}

export function streamOf(connection: ConnectionRecord): Stream {
  const { start, events } = connection
  const end = start === 'present' ? events.findIndex(endsInitialEvents) : -1
  const isWhole = start !== 'present' || end >= 0
  const initialPart = start === 'present' ? events.slice(0, isWhole ? end : undefined) : []
  const live = isWhole ? events.slice(end + 1) : events.filter(({ type }) => type === 'ERROR')
  const bookmark = events[end]
  const initialVersion = bookmark?.type === 'BOOKMARK' ? bookmark.version : undefined
  let knows = start === 'present' ? initialVersion : start
  for (const event of live) {
    if (event.type !== 'ERROR' && (knows === undefined || event.version > knows)) knows = event.version
  }
  return { connection, initial: initialPart.filter(isChange), initialVersion, live, knows }
}

/** Connections that resume one another, so that the client knows a history without a gap. */
export type Session = readonly Stream[]

export function sessionsOf(watcher: WatcherRecord): Session[] {
  const sessions: Stream[][] = []
  for (const connection of watcher.connections) {
    const current = sessions.at(-1)
    if (connection.start === 'present' || current === undefined) sessions.push([streamOf(connection)])
    else current.push(streamOf(connection))
  }
  return sessions
}

export function isChange(event: ConnectionRecord['events'][number]): event is ChangeRecord {
  return event.type !== 'BOOKMARK' && event.type !== 'ERROR'
}

function endsInitialEvents(event: ConnectionRecord['events'][number]): boolean {
  return event.type === 'BOOKMARK' && event.endsInitialEvents
}
