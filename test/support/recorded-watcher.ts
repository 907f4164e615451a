import { laterRevision, parseRevision, type Revision } from '@setpoint/controller-runtime/api'
import type { ConnectionRecorder, WatcherRecorder } from '@setpoint/controller-runtime/testing'
import { watchEventOf } from './record.ts'
import { type Connection, type Transport, transports, withQuery } from './transports.ts'

export interface RecordedWatcherOptions {
  /** Of the server; asked for at each connection. */
  readonly url: () => string
  /** Path and query of what is watched. */
  readonly address: string
  readonly recorder: WatcherRecorder
  /** Default a WebSocket. */
  readonly transport?: Transport
  /** Milliseconds before it comes back; asked for each time. Default 30. */
  readonly pauseMs?: () => number
}

/**
 * A watcher that does what a good client does, and reports to a run recorder: it comes back after every disconnection
 * with the last version that it knows, and anew after a 410.
 */
export class RecordedWatcher {
  events = 0
  connections = 0
  /** How often it was sent away with a 410. */
  expired = 0
  readonly #options: RecordedWatcherOptions
  readonly #running: Promise<void>
  #known: Revision | undefined
  #connection: Connection | undefined
  /** Whether it asks for short watches, at whose end a bookmark says what is known. */
  #catchesUp = false
  #stopped = false
  #failure: unknown
  #wake: (() => void)[] = []

  constructor(options: RecordedWatcherOptions) {
    this.#options = options
    this.#running = this.#run()
  }

  /** Resolves once its initial events are complete. @throws what it was told that is no event */
  async synced(): Promise<void> {
    while (this.#known === undefined) await this.#more()
  }

  /**
   * Resolves once everything up to a version is known, which one with a selector may learn only from the bookmark at
   * the end of a watch; or after `patienceMs`: what is missing is then in the record.
   * @throws what it was told that is no event
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

  /** @throws what it was told that is no event */
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
          // What was on its way when the watcher had enough of this connection.
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
    // An event stream says itself from where one can resume; elsewhere it is every version from the first bookmark on.
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
