import { type ApiObject, initialEventsEndAnnotation } from '../../api/object.ts'
import { laterRevision, parseRevision, type Revision, zeroRevision } from '../../api/version.ts'
import type { WatchEvent } from '../../api/watch-event.ts'
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

/** What is known of a run beforehand. */
export interface RunRecorderOptions {
  /** Where writers put the marks of their writes; without it, writes are known by their versions alone. */
  readonly markOf?: (object: ApiObject) => string | undefined
  /** Whether somebody who does not report changes the objects too. Default false. */
  readonly otherWriters?: boolean
}

/** Who a recorded watcher is. */
export interface WatcherOptions {
  /** Whether the object is one that is watched: the selector, and the name of a watch of one. Default everything. */
  readonly selects?: (object: ApiObject) => boolean
  /**
   * Whether what it sees is taken for what happened. It must watch everything and begin from the present. A run needs
   * one; with two, a fault of one is told from what happened.
   */
  readonly witness?: boolean
}

/**
 * Takes down a run while it goes on: writers report each attempt once they know its outcome, watchers each connection
 * and each event as it arrives, in this order. What is kept grows with the run; equal objects are kept once.
 *
 * Watchers must ask for bookmarks: where the initial events end is known by theirs. After a 410 they begin anew.
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

  /** What has been taken down so far. */
  get log(): RunLog {
    const { otherWriters = false, markOf = () => undefined } = this.#options
    return { writes: this.#writes, watchers: this.#watchers, lists: this.#lists, otherWriters, markOf }
  }

  /** The highest version that has been acknowledged to a writer; 0 for none. To be passed to `listed`. */
  get acknowledged(): Revision {
    return this.#acknowledged
  }

  /** An attempt to write whose outcome is known. To be called before anything that its writer does next. */
  wrote(write: WriteRecord): void {
    const { outcome } = write
    if (outcome.kind !== 'acknowledged') this.#writes.push(write)
    else {
      const object = outcome.object && this.#intern(outcome.object)
      this.#writes.push({ ...write, outcome: { ...outcome, ...(object && { object }) } })
      this.#acknowledged = laterRevision(this.#acknowledged, outcome.version)
    }
  }

  /** The store is about to forget the changes up to this version. To be called before it is told to. */
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

  /** A list of everything that matches; `acknowledged` is this recorder's when the list was asked for. */
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

/** Takes down what one watcher is told. */
export interface WatcherRecorder {
  /** A connection is about to be opened: from the present, or resumed from a version. */
  connects(start: 'present' | Revision): ConnectionRecorder
}

/** Takes down one connection of a watcher. */
export interface ConnectionRecorder {
  /** @throws RangeError when the event has no version. */
  received(event: WatchEvent): void
}
