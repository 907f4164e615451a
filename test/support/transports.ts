import http from 'node:http'
import type { Revision } from '@setpoint/controller-runtime/api'
import { WebSocket } from 'ws'

/** One watch connection, on any transport. */
export interface Connection {
  /** Resolves when the connection has ended or was refused. */
  readonly ended: Promise<void>
  /** Drops the connection without a close, as networks do. */
  cut(): void
}

export interface ConnectionOptions {
  readonly url: string
  /** Path and query, without the version and the parameters that a transport adds. */
  readonly address: string
  readonly start: 'present' | Revision
  readonly headers?: Readonly<Record<string, string>>
  /** Called with the JSON of each complete event, and its id on Server-Sent Events. */
  readonly onEvent: (text: string, id?: string) => void
}

export type Transport = (options: ConnectionOptions) => Connection

const webSocket: Transport = ({ url, address, start, headers = {}, onEvent }) => {
  const socket = new WebSocket(`${url.replace(/^http/, 'ws')}${withQuery(address, versionOf(start))}`, {
    perMessageDeflate: false,
    headers,
  })
  const ended = new Promise<void>(resolve => socket.on('close', () => resolve()))
  socket.on('message', data => onEvent(data.toString()))
  // A refused or broken connection closes.
  socket.on('error', () => {})
  return { ended, cut: () => socket.terminate() }
}

const lines: Transport = ({ url, address, start, headers = {}, onEvent }) => {
  const query = { watch: 'true', allowWatchBookmarks: 'true', ...versionOf(start) }
  return stream(`${url}${withQuery(address, query)}`, headers, '\n', line => onEvent(line))
}

/** Reconnects with the last event id, as EventSource does. */
const events: Transport = ({ url, address, start, headers: given, onEvent }) => {
  const headers = {
    accept: 'text/event-stream',
    ...given,
    ...(start !== 'present' && { 'last-event-id': String(start) }),
  }
  return stream(`${url}${withQuery(address, { watch: 'true' })}`, headers, '\n\n', block => {
    const fields = block.split('\n')
    const textOf = (name: string) => fields.find(each => each.startsWith(`${name}: `))?.slice(name.length + 2)
    const data = textOf('data')
    if (data !== undefined) onEvent(data, textOf('id'))
  })
}

export const transports = Object.freeze({ webSocket, lines, events })

/** Reads a streamed response. Drops an incomplete event at its end. */
function stream(
  url: string,
  headers: http.OutgoingHttpHeaders,
  separator: string,
  onPart: (text: string) => void,
): Connection {
  const request = http.get(url, { headers, agent: false })
  const ended = new Promise<void>(resolve => request.on('close', () => resolve()))
  request.on('error', () => {})
  request.on('response', response => {
    response.on('error', () => {})
    if (response.statusCode !== 200) {
      response.resume()
      return
    }
    let rest = ''
    response.setEncoding('utf8').on('data', (text: string) => {
      const parts = (rest + text).split(separator)
      rest = parts.pop() ?? ''
      for (const part of parts) onPart(part)
    })
  })
  return { ended, cut: () => request.destroy() }
}

export function versionOf(start: 'present' | Revision): Record<string, string> {
  return start === 'present' ? {} : { version: String(start) }
}

export function withQuery(address: string, parameters: Record<string, string>): string {
  const text = new URLSearchParams(parameters).toString()
  return text === '' ? address : `${address}${address.includes('?') ? '&' : '?'}${text}`
}
