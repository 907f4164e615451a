import {
  type ApiObject,
  parseRevision,
  type Revision,
  type WatchEvent,
} from '@setpoint/controller-runtime/api'
import { type Answer, isStatus } from './api.ts'
import { fieldsOf, isFields, textOf } from './json.ts'
import type { WriteOutcome } from './watch-record/index.ts'

/** Translates responses and events into entries of a run recorder. */

/** Returns a write's outcome from its response, or from its failure. @throws Error if a 5xx is not a Status */
export async function outcomeOf(send: () => Promise<Answer>): Promise<WriteOutcome> {
  try {
    const { status, body, text } = await send()
    // The Status of a deletion does not have its version.
    if (status === 504 || (status === 200 && isStatus(body))) return { kind: 'unknown' }
    if ((status >= 400 && status < 500) || status === 503) return { kind: 'refused', why: String(status) }
    if (status >= 300) throw new Error(`a write got ${status}: ${text}`)
    const object = objectOf(body)
    return { kind: 'acknowledged', version: parseRevision(object.metadata.version), object }
  } catch (error) {
    // Connection refused: the request was not sent.
    if (codeOf(error) === 'ECONNREFUSED') return { kind: 'refused', why: 'ECONNREFUSED' }
    if (error instanceof TypeError || (error instanceof Error && error.name === 'TimeoutError')) {
      return { kind: 'unknown' }
    }
    throw error
  }
}

function codeOf(error: unknown): unknown {
  const cause = error instanceof Error ? error.cause : undefined
  return isFields(cause) || cause instanceof Error ? Reflect.get(cause, 'code') : undefined
}

/** @throws Error if the value is not an object with a name and a version */
export function objectOf(value: unknown): ApiObject {
  if (!isObject(value)) throw new Error(`not an API object: ${JSON.stringify(value)}`)
  return value
}

function isObject(value: unknown): value is ApiObject {
  if (!isFields(value) || !isFields(value.metadata)) return false
  const { name, version } = value.metadata
  return typeof name === 'string' && typeof version === 'string'
}

/** Parses one event. @throws Error if it is not an event */
export function watchEventOf(text: string): WatchEvent {
  const event: unknown = JSON.parse(text)
  if (!isWatchEvent(event)) throw new Error(`not a watch event: ${text}`)
  return event
}

function isWatchEvent(value: unknown): value is WatchEvent {
  if (!isFields(value) || !isFields(value.object)) return false
  const { type, object } = value
  if (type === 'ERROR') return object.kind === 'Status'
  if (type === 'BOOKMARK') return isFields(object.metadata) && typeof object.metadata.version === 'string'
  return (type === 'ADDED' || type === 'MODIFIED' || type === 'DELETED') && isObject(object)
}

export interface RecordedList {
  readonly version: Revision
  readonly objects: readonly ApiObject[]
}

/** Parses the response to a list request. @throws Error if it is not a list */
export function recordedListOf({ status, text, body }: Answer): RecordedList {
  if (status !== 200) throw new Error(`a list got ${status}: ${text}`)
  const { metadata, items } = fieldsOf(body)
  if (!Array.isArray(items)) throw new Error(`a list without items: ${text}`)
  return { version: parseRevision(textOf(fieldsOf(metadata).version)), objects: items.map(objectOf) }
}

/** Returns the values of the unique index `spec.code`. */
export function codesOf({ spec }: ApiObject): readonly string[] {
  return isFields(spec) && typeof spec.code === 'string' ? [spec.code] : []
}

/** Writers put a mark of each write into `spec.op`. */
export function markOf({ spec }: ApiObject): string | undefined {
  return isFields(spec) && typeof spec.op === 'string' ? spec.op : undefined
}
