import { WebSocket } from 'ws'
import type { Answer, ApiObject } from './api.ts'
import { readObject } from './api.ts'
import { type Fields, fieldsOf, textOf } from './json.ts'

/** Recorders of WebSocket watches. */

export interface WatchEvent {
  readonly type: string
  /** The version of the object; in a bookmark, the version up to which every event was sent. '' in an ERROR. */
  readonly version: string
  readonly name: string
  readonly raw: Fields
}

export interface Close {
  readonly code: number
  readonly reason: string
}

/** One WebSocket, from its opening to its close. */
export class Watch {
  readonly events: WatchEvent[] = []
  readonly closed: Promise<Close>
  readonly #socket: WebSocket
  #wake: (() => void)[] = []
  #isClosed = false
  onEvent: ((event: WatchEvent) => void) | undefined

  private constructor(socket: WebSocket) {
    this.#socket = socket
    socket.on('message', data => {
      const event = readEvent(data.toString())
      this.events.push(event)
      this.onEvent?.(event)
      this.#notify()
    })
    this.closed = new Promise(resolve => {
      socket.on('close', (code, reason) => {
        this.#isClosed = true
        this.#notify()
        resolve({ code, reason: reason.toString() })
      })
    })
    // A broken connection closes with 1006, which is recorded.
    socket.on('error', () => {})
  }

  /** Opens a watch. @throws WatchRefused with the HTTP response if the server does not upgrade */
  static open(
    url: string,
    path: string,
    options: {
      headers?: Record<string, string>
      protocols?: string[]
      onEvent?: (event: WatchEvent) => void
    } = {},
  ): Promise<Watch> {
    const { headers = {}, protocols = [], onEvent } = options
    const socket = new WebSocket(`${url.replace(/^http/, 'ws')}${path}`, protocols, { headers })
    const watch = new Watch(socket)
    watch.onEvent = onEvent
    return new Promise((resolve, reject) => {
      socket.on('open', () => resolve(watch))
      socket.on('error', reject)
      socket.on('unexpected-response', (_request, response) => {
        let text = ''
        response.setEncoding('utf8')
        response.on('data', (part: string) => {
          text += part
        })
        response.on('end', () => {
          const answered = new Headers()
          for (const [name, value] of Object.entries(response.headers)) {
            if (value !== undefined) answered.set(name, [value].flat().join(', '))
          }
          reject(new WatchRefused(response.statusCode ?? 0, answered, text))
        })
      })
    })
  }

  /** The events except bookmarks. */
  get changes(): WatchEvent[] {
    return this.events.filter(({ type }) => type !== 'BOOKMARK')
  }

  /** `TYPE name` of every event except bookmarks. */
  get story(): string[] {
    return this.changes.map(({ type, name }) => `${type} ${name}`)
  }

  /** Resolves when the events satisfy the condition. @throws Error if the watch closes first */
  async until(condition: (watch: this) => boolean, what = String(condition)): Promise<void> {
    while (!condition(this)) {
      if (this.#isClosed) {
        const { code, reason } = await this.closed
        throw new Error(
          `the watch closed (${code} ${reason}) before ${what}; it had ${this.story.join(', ')}`,
        )
      }
      await new Promise<void>(resolve => this.#wake.push(resolve))
    }
  }

  /** Resolves when the initial events are complete, with the bookmark's version. */
  async synced(): Promise<string> {
    await this.until(({ events }) => events.some(isInitialEnd), 'the end of the initial events')
    return this.events.find(isInitialEnd)?.version ?? ''
  }

  /** Resolves when a change of this object, or a later version, has arrived. */
  reaches(version: string): Promise<void> {
    return this.until(
      ({ events }) => events.some(event => event.version !== '' && Number(event.version) >= Number(version)),
      `version ${version}`,
    )
  }

  /** Sends a text message. */
  say(text: string): void {
    this.#socket.send(text)
  }

  async close(): Promise<Close> {
    this.#socket.close()
    return this.closed
  }

  /** Drops the connection without a close frame, as networks do. */
  async cut(): Promise<Close> {
    this.#socket.terminate()
    return this.closed
  }

  #notify(): void {
    const waiting = this.#wake
    this.#wake = []
    for (const wake of waiting) wake()
  }
}

export class WatchRefused extends Error {
  override readonly name = 'WatchRefused'
  readonly answer: Answer

  constructor(status: number, headers: Headers, text: string) {
    super(`the watch was refused: ${status} ${text.slice(0, 500)}`)
    let body: unknown
    try {
      body = JSON.parse(text)
    } catch {
      body = undefined
    }
    this.answer = { status, headers, text, body }
  }
}

/** Returns the HTTP response that refuses a watch. Fails if the watch opens. */
export async function refusedWatch(
  url: string,
  path: string,
  headers: Record<string, string> = {},
): Promise<Answer> {
  try {
    await (await Watch.open(url, path, { headers })).close()
  } catch (error) {
    if (error instanceof WatchRefused) return error.answer
    throw error
  }
  throw new Error(`the watch ${path} opened`)
}

/** Parses a frame and checks its form. */
function readEvent(frame: string): WatchEvent {
  const raw = fieldsOf(JSON.parse(frame))
  const type = textOf(raw.type)
  const object = fieldsOf(raw.object)
  if (!['ADDED', 'MODIFIED', 'DELETED', 'BOOKMARK', 'ERROR'].includes(type)) throw new Error(`event ${type}`)
  if (type === 'ERROR') return { type, version: '', name: '', raw }
  const metadata = fieldsOf(object.metadata)
  const version = textOf(metadata.version)
  if (version !== metadata.resourceVersion) throw new Error(`version and resourceVersion differ: ${frame}`)
  return { type, version, name: type === 'BOOKMARK' ? '' : textOf(metadata.name), raw }
}

export function objectIn(event: WatchEvent | undefined): ApiObject {
  return readObject(event?.raw.object)
}

export function isInitialEnd({ type, raw }: WatchEvent): boolean {
  if (type !== 'BOOKMARK') return false
  const { annotations } = fieldsOf(fieldsOf(raw.object).metadata)
  return annotations !== undefined && fieldsOf(annotations)['k8s.io/initial-events-end'] === 'true'
}
