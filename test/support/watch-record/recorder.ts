import {
  type ApiObject,
  initialEventsEndAnnotation,
  laterRevision,
  parseRevision,
  type Revision,
  type WatchEvent,
  zeroRevision,
} from '@setpoint/controller-runtime/api'
import { checkRun } from './check-run.ts'
import type { Violation } from './guarantees.ts'
import type {
  ConnectionRecord,
  EventRecord,
  ListRecord,
  RunLog,
  WatcherRecord,
  WriteRecord,
} from './run-log.ts'

/** Options of a recorder. */
export interface RunRecorderOptions {
  /** Returns the mark that a write left in an object; without it, writes are identified by version only. */
  readonly markOf?: (object: ApiObject) => string | undefined
  /** Returns the values that no other object may have. Default: none. */
  readonly uniqueOf?: (object: ApiObject) => readonly string[]
  /** Whether there are writers that do not report. Default false. */
  readonly otherWriters?: boolean
}

/** Options of a recorded watcher. */
export interface WatcherOptions {
  /** Returns true for objects that are watched, by selector or by name. Default: all. */
  readonly selects?: (object: ApiObject) => boolean
  /**
   * Whether its events are taken as the true history. A witness must watch everything, starting without a version. A
   * run needs at least one; with two, a fault of one can be told apart.
   */
  readonly witness?: boolean
}

/**
 * Records a run: writers report each attempt with its outcome, watchers each connection and each event, in order. The
 * record grows with the run; equal objects are stored once.
 *
 * Watchers must request bookmarks, which mark the end of the initial events. After a 410 they must start without a
 * version.
 */
export class RunRecorder {
  readonly #writes: WriteRecord[] = []
  readonly #watchers: WatcherRecord[] = []
  readonly #lists: ListRecord[] = []
  readonly #options: RunRecorderOptions
  readonly #objects = new Map<string, ApiObject>()
  #acknowledged = zeroRevision
  #compacted = zeroRevision

  constructor(options: RunRecorderOptions = {}) {
    this.#options = options
  }

  /** The record so far. */
  get log(): RunLog {
    const { otherWriters = false, markOf = () => undefined, uniqueOf = () => [] } = this.#options
    const { writes, watchers, lists } = { writes: this.#writes, watchers: this.#watchers, lists: this.#lists }
    return { writes, watchers, lists, otherWriters, markOf, uniqueOf }
  }

  /** The highest version acknowledged to a writer, or 0. Pass it to `listed`. */
  get acknowledged(): Revision {
    return this.#acknowledged
  }

  /** Records a write. Call it before the writer's next step. */
  wrote(write: WriteRecord): void {
    const { outcome } = write
    if (outcome.kind !== 'acknowledged') this.#writes.push(write)
    else {
      const object = outcome.object && this.#intern(outcome.object)
      this.#writes.push({ ...write, outcome: { ...outcome, ...(object && { object }) } })
      this.#acknowledged = laterRevision(this.#acknowledged, outcome.version)
    }
  }

  /** Records a compaction up to this version. Call it before requesting the compaction. */
  compacts(version: Revision): void {
    this.#compacted = laterRevision(this.#compacted, version)
  }

  watcher(name: string, { selects = () => true, witness = false }: WatcherOptions = {}): WatcherRecorder {
    const connections: ConnectionRecord[] = []
    this.#watchers.push({ name, selects, witness, connections })
    return {
      connects: start => {
        const events: EventRecord[] = []
        connections.push({ start, acknowledged: this.#acknowledged, events })
        return { received: event => events.push(this.#eventOf(event)) }
      },
    }
  }

  /** Records a complete list; `acknowledged` is the recorder's value when the list was requested. */
  listed(list: ListRecord): void {
    this.#lists.push({ ...list, objects: list.objects.map(object => this.#intern(object)) })
  }

  /** @see checkRun */
  check(options?: Parameters<typeof checkRun>[1]): Violation[] {
    return checkRun(this.log, options)
  }

  #eventOf(event: WatchEvent): EventRecord {
    if (event.type === 'ERROR') {
      const { code, message } = event.object
      return { type: 'ERROR', code, message, compacted: this.#compacted }
    }
    const { metadata } = event.object
    const version = parseRevision(metadata.version)
    if (event.type === 'BOOKMARK') {
      const endsInitialEvents = metadata.annotations?.[initialEventsEndAnnotation] === 'true'
      return { type: 'BOOKMARK', version, endsInitialEvents }
    }
    const object = this.#intern(event.object)
    return { type: event.type, name: object.metadata.name, version, object }
  }

  #intern(object: ApiObject): ApiObject {
    const text = JSON.stringify(object)
    const known = this.#objects.get(text)
    if (known !== undefined) return known
    this.#objects.set(text, object)
    return object
  }
}

/** Records one watcher. */
export interface WatcherRecorder {
  /** Records a new connection: without a version (`present`), or resumed from one. */
  connects(start: 'present' | Revision): ConnectionRecorder
}

/** Records one connection of a watcher. */
export interface ConnectionRecorder {
  /** @throws RangeError if the event has no version. */
  received(event: WatchEvent): void
}
