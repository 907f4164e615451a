import type { ApiError, ObjectMeta, Revision } from '@setpoint/controller-runtime/api'
import type { BareObject } from './bare-object.ts'
import type { Reservations } from './reservations.ts'

export type { BareMeta, BareObject } from './bare-object.ts'

/** The version whose form the wire JSON of an object has. */
export interface WireVersion {
  readonly apiVersion: string
  readonly kind: string
  /** The wire JSON of every object begins with this, followed by the name. */
  readonly wirePrefix: string
}

/**
 * The stored form of an object: a line with its reservations, then its JSON without the version.
 *
 *     {"spec.url":["https://example.com"]}\n{"apiVersion":…,"kind":…,"metadata":{"name":"a","uid":…},…}
 *
 * The wire form is the second part with the version spliced in after the name. Lists and events therefore never encode
 * an object.
 */
export interface StoredObject {
  /** At the hub, or as stored if that fails. */
  readonly object: BareObject
  /** As stored, if that is another version than the hub. */
  readonly raw?: BareObject
  /** Set if the stored object cannot be converted to the hub. */
  readonly failure?: ApiError
  readonly reservations: Reservations
}

/** Encodes an object without its version. Its keys must be in the order of `composeObject`. */
export function encodeObject(object: BareObject): string {
  return JSON.stringify(object)
}

export function encodeStored(objectJson: string, reservations: Reservations): Buffer {
  return Buffer.from(`${JSON.stringify(reservations)}\n${objectJson}`)
}

/** Returns the offset of the object in a stored value. */
export function objectStart(value: Buffer): number {
  return value.indexOf(0x0a) + 1
}

/** Returns the bytes of the object in a stored value, as a view. */
export function objectBytes(value: Buffer): Buffer {
  return value.subarray(objectStart(value))
}

/** Decodes a value of `encodeStored`, in the version that it is stored in. @throws SyntaxError if it is malformed */
export function decodeStored(value: Buffer): StoredObject {
  const end = value.indexOf(0x0a)
  return {
    reservations: JSON.parse(value.toString('utf8', 0, end)),
    object: JSON.parse(value.toString('utf8', end + 1)),
  }
}

/**
 * Returns bytes of their own. Small buffers of `Buffer.allocUnsafe` lie in blocks of 8 KiB with others, and one that is
 * kept keeps its whole block, with what was only needed for a moment.
 */
const allocateOwn: Allocate = bytes => Buffer.allocUnsafeSlow(bytes)

/** Returns memory for so many bytes, with any content. */
export type Allocate = (bytes: number) => Buffer

/**
 * Returns the wire JSON of a stored object, with its version spliced in after the name.
 * @param from offset of the object in `json`
 * @param allocate default memory of its own
 */
export function wireBytes(
  version: WireVersion,
  name: string,
  json: Buffer,
  revision: Revision,
  from = 0,
  allocate = allocateOwn,
): Buffer {
  const head = version.wirePrefix.length + name.length + 1
  const prefix = `${version.wirePrefix}${name}"`
  if (json.toString('latin1', from, from + head) !== prefix)
    return Buffer.from(encodeWire(version, JSON.parse(json.toString('utf8', from)), revision))
  const spliced = versionText(revision)
  const bytes = allocate(json.length - from + spliced.length)
  json.copy(bytes, 0, from, from + head)
  bytes.write(spliced, head, 'latin1')
  json.copy(bytes, head + spliced.length, from + head)
  return bytes
}

function versionText(revision: Revision): string {
  return `,"version":"${revision}","resourceVersion":"${revision}"`
}

/**
 * Returns the bytes of an object's wire JSON without its version, so that an object does not grow with the revisions.
 */
export function contentBytes(wire: Buffer, revision: Revision): number {
  return wire.length - versionText(revision).length
}

function encodeWire(version: WireVersion, object: BareObject, revision: Revision): string {
  return JSON.stringify(wireObject(version, object, revision))
}

/** Returns the wire form of an object, which shares its content. Its fields are in the order of wire JSON. */
export function wireObject(version: WireVersion, object: BareObject, revision: Revision): object {
  const { apiVersion: _apiVersion, kind: _kind, metadata, ...content } = object
  const { name, ...rest } = metadata
  const text = String(revision)
  return {
    apiVersion: version.apiVersion,
    kind: version.kind,
    metadata: { name, version: text, resourceVersion: text, ...rest },
    ...content,
  }
}

/** Decodes wire JSON to the object without its version. Keeps the order of fields. */
export function decodeWire(bytes: Buffer): BareObject {
  const wire: BareObject & { metadata: ObjectMeta } = JSON.parse(bytes.toString())
  const { version: _version, resourceVersion: _resourceVersion, ...metadata } = wire.metadata
  return { ...wire, metadata }
}

/** Returns the wire object with another version, as DELETED events carry it. */
export function withVersion(
  version: WireVersion,
  name: string,
  wire: Buffer,
  from: Revision,
  to: Revision,
): Buffer {
  const head = version.wirePrefix.length + name.length + 1
  const before = `,"version":"${from}","resourceVersion":"${from}"`
  const after = `,"version":"${to}","resourceVersion":"${to}"`
  const bytes = allocateOwn(wire.length - before.length + after.length)
  wire.copy(bytes, 0, 0, head)
  bytes.write(after, head, 'latin1')
  wire.copy(bytes, head + after.length, head + before.length)
  return bytes
}
