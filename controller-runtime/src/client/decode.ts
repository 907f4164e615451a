import type { IncomingHttpHeaders } from 'node:http'
import type { Action } from '../api/action.ts'
import { ApiError, isStatus } from '../api/errors.ts'
import { isRecord } from '../api/is-record.ts'
import type { Model } from '../api/model.ts'
import type { ApiObject, ObjectList } from '../api/object.ts'
import { isVersion } from '../api/version.ts'
import type { BookmarkObject, WatchEvent } from '../api/watch-event.ts'
import { TransportError, type TransportResponse } from './transport.ts'

/**
 * Decodes responses. It checks the fields that every object has (kind, name, uid, version) and trusts the server for
 * spec and status.
 */

/** A frame of a watch is not valid JSON, has an unknown type, or holds an object of another kind. */
export class MalformedEventError extends Error {
  override readonly name = 'MalformedEventError'
}

/**
 * @param isDryRun accepts an object that was not stored, so it has no version. Its version is '', as in client-go.
 * @throws TransportError if the body is not an object of that model.
 */
export function decodeObject<T extends ApiObject>(model: Model<T>, text: string, isDryRun = false): T {
  return objectOf(model, parse(text), text, isDryRun)
}

/**
 * Returns undefined for a response that does not show the deleted object.
 * @throws TransportError as `decodeObject`
 */
export function decodeDeleted<T extends ApiObject>(
  model: Model<T>,
  text: string,
  isDryRun = false,
): T | undefined {
  const value = parse(text)
  const isDone = isRecord(value) && value.kind === 'Status' && value.status === 'Success'
  return isDone ? undefined : objectOf(model, value, text, isDryRun)
}

function objectOf<T extends ApiObject>(model: Model<T>, value: unknown, text: string, isDryRun: boolean): T {
  const isNew = isDryRun && fillInVersion(value)
  if (isObjectOf(model, value, isNew)) return value
  throw unexpected(`a ${model.kind}`, text)
}

/**
 * Returns the result of an action, or undefined if it has no output.
 * @throws TransportError if the body is not JSON
 */
export function decodeResult({ name, output }: Pick<Action, 'name' | 'output'>, text: string): unknown {
  if (output === undefined) return undefined
  const value = parse(text)
  if (value === undefined) throw unexpected(`the result of ${name}`, text)
  return value
}

/**
 * Gives the items of a built-in kind their apiVersion and kind, which only the list has.
 * @throws TransportError if the body is not a list of that model's objects.
 */
export function decodeList<T extends ApiObject>(model: Model<T>, text: string): ObjectList<T> {
  const value = parse(text)
  fillInKind(model, value)
  if (isListOf(model, value)) return value
  throw unexpected(`a list of ${model.plural}`, text)
}

/** @throws MalformedEventError */
export function decodeEvent<T extends ApiObject>(model: Model<T>, text: string): WatchEvent<T> {
  const value = parse(text)
  if (isEventOf(model, value)) return value
  throw new MalformedEventError(
    `malformed event in watch of ${model.plural}: ${JSON.stringify(text.slice(0, 200))}`,
  )
}

/** Returns the error of a non-2xx response, with the delay from its `Retry-After` header. */
export function decodeError({ status, body, headers }: TransportResponse): ApiError {
  const error = ApiError.fromResponse(status, parse(body))
  const seconds = Number(headers['retry-after'] ?? Number.NaN)
  if (error.details?.retryAfterSeconds !== undefined || !(seconds >= 0)) return error
  return new ApiError(error.reason, error.message, { ...error.details, retryAfterSeconds: seconds })
}

/** Returns the texts of the `Warning` headers, as Kubernetes writes them: `299 - "<text>"`. */
export function decodeWarnings({ headers: { warning } }: TransportResponse): string[] {
  if (warning === undefined) return []
  const texts = Array.from(warning.matchAll(/\b299 \S+ ("(?:[^"\\]|\\.)*")/g), ([, quoted = '']) =>
    parse(quoted),
  )
  return texts.filter(text => typeof text === 'string')
}

/** Joins the values of repeated headers, and reads them as UTF-8, which Node reads as Latin-1. */
export function flattenHeaders(headers: IncomingHttpHeaders): Record<string, string> {
  const flat: Record<string, string> = {}
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined) continue
    flat[name] = Buffer.from(Array.isArray(value) ? value.join(', ') : value, 'latin1').toString()
  }
  return flat
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function unexpected(expected: string, text: string): TransportError {
  return new TransportError(`expected ${expected} but got ${JSON.stringify(text.slice(0, 200))}`)
}

/** Gives an object without a version the empty one. Returns false if there is nothing to fill in. */
function fillInVersion(value: unknown): boolean {
  if (!isRecord(value) || !isRecord(value.metadata) || value.metadata.version !== undefined) return false
  Object.assign(value.metadata, { version: '', resourceVersion: '' })
  return true
}

function fillInKind({ apiVersion, kind }: Model, list: unknown): void {
  if (!isRecord(list) || list.apiVersion !== apiVersion || list.kind !== `${kind}List`) return
  if (!Array.isArray(list.items)) return
  for (const item of list.items)
    if (isRecord(item) && item.kind === undefined) Object.assign(item, { apiVersion, kind })
}

function isObjectOf<T extends ApiObject>(model: Model<T>, value: unknown, isNew = false): value is T {
  if (!isRecord(value) || value.kind !== model.kind || value.apiVersion !== model.apiVersion) return false
  const { metadata } = value
  return (
    isRecord(metadata) &&
    typeof metadata.name === 'string' &&
    typeof metadata.uid === 'string' &&
    (isNew || hasVersion(metadata))
  )
}

function hasVersion(metadata: Record<string, unknown>): boolean {
  return typeof metadata.version === 'string' && isVersion(metadata.version)
}

function isListOf<T extends ApiObject>(model: Model<T>, value: unknown): value is ObjectList<T> {
  return (
    isRecord(value) &&
    isRecord(value.metadata) &&
    hasVersion(value.metadata) &&
    Array.isArray(value.items) &&
    value.items.every(item => isObjectOf(model, item))
  )
}

function isBookmark(value: unknown): value is BookmarkObject {
  return isRecord(value) && isRecord(value.metadata) && hasVersion(value.metadata)
}

function isEventOf<T extends ApiObject>(model: Model<T>, value: unknown): value is WatchEvent<T> {
  if (!isRecord(value)) return false
  switch (value.type) {
    case 'ADDED':
    case 'MODIFIED':
    case 'DELETED':
      return isObjectOf(model, value.object)
    case 'BOOKMARK':
      return isBookmark(value.object)
    case 'ERROR':
      return isStatus(value.object)
    default:
      return false
  }
}
