import { laterRevision, parseRevision, type Revision } from '@setpoint/controller-runtime/api'
import { watchEventOf } from './record.ts'
import { type Connection, type Transport, transports, withQuery } from './transports.ts'
import type { ConnectionRecorder, WatcherRecorder } from './watch-record/index.ts'

export interface RecordedWatcherOptions {
  /** Returns the server's URL; called for each connection. */
  readonly url: () => string
  /** Path and query of the watch. */
  readonly address: string
  readonly recorder: WatcherRecorder
  /** Default WebSocket. */
  readonly transport?: Transport
  /** Returns the milliseconds before a reconnect; called each time. Default 30. */
  readonly pauseMs?: () => number
}

/**
 * A well-behaved watcher that reports to a run recorder. It resumes from its last version after every disconnect and
 * starts over after a 410.
 */
export class RecordedWatcher {
  events = 0
  connections = 0
  /** Number of 410 responses. */
  expired = 0
  readonly #options: RecordedWatcherOptions
  readonly #running: Promise<void>
  #known: Revision | undefined
  #connection: Connection | undefined
  /** True if it requests short watches, which end with a bookmark. */
  #catchesUp = false
  #stopped = false
  #failure: unknown
  #wake: (() => void)[] = []

  constructor(options: RecordedWatcherOptions) {
    this.#options = options
    this.#running = this.#run()
  }

  /** Resolves when its initial events are complete. @throws Error on a malformed event */
  async synced(): Promise<void> {
    while (this.#known === undefined) await this.#more()
  }

  /**
   * Resolves when it knows every event up to a version, or after `patienceMs`: the record then shows the missing ones.
   * A watcher with a selector may learn the version only from the bookmark at the end of a watch.
   * @throws Error on a malformed event
   */
  async catchUp(version: Revision, patienceMs = 180_000): Promise<void> {
    this.#catchesUp = true
    this.#connection?.cut()
    let patient = true
    const timer = setTimeout(() => {
      patient = false
      this.#notify()
    }, patienceMs)
    while (patient && (this.#known === undefined || this.#known < version)) await this.#more()
    clearTimeout(timer)
  }

  /** @throws Error on a malformed event */
  async stop(): Promise<void> {
    this.#stopped = true
    this.#connection?.cut()
    await this.#running
    if (this.#failure !== undefined) throw this.#failure
  }

  async #run(): Promise<void> {
    const { url, address, recorder, transport = transports.webSocket, pauseMs = () => 30 } = this.#options
    while (!this.#stopped && this.#failure === undefined) {
      const start = this.#known ?? 'present'
      const record = recorder.connects(start)
      const connection = transport({
        url: url(),
        address: this.#catchesUp ? withQuery(address, { timeoutSeconds: '1' }) : address,
        start,
        onEvent: (text, id) => {
          // In flight when the watcher closed this connection.
          if (connection !== this.#connection) return
          try {
            this.#take(record, text, id)
          } catch (error) {
            this.#failure ??= error
            connection.cut()
          }
          this.#notify()
        },
      })
      this.connections += 1
      this.#connection = connection
      await connection.ended
      this.#connection = undefined
      this.#notify()
      if (!this.#stopped) await new Promise(resolve => setTimeout(resolve, pauseMs()))
    }
  }

  #take(record: ConnectionRecorder, text: string, id: string | undefined): void {
    const event = watchEventOf(text)
    record.received(event)
    this.events += 1
    if (event.type === 'ERROR') {
      this.expired += 1
      this.#known = undefined
      return
    }
    // An event stream names the version to resume from; other watches can resume from any version after the first
    // bookmark.
    if (id !== undefined) this.#known = parseRevision(id)
    else if (this.#known !== undefined || event.type === 'BOOKMARK') {
      const version = parseRevision(event.object.metadata.version)
      this.#known = this.#known === undefined ? version : laterRevision(this.#known, version)
    }
  }

  async #more(): Promise<void> {
    await new Promise<void>(resolve => this.#wake.push(resolve))
    if (this.#failure !== undefined) throw this.#failure
  }

  #notify(): void {
    for (const wake of this.#wake.splice(0)) wake()
  }
}
