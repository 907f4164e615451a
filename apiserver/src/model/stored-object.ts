import type { ObjectMeta, OwnerReference, Revision } from '@setpoint/controller-runtime/api'
import type { Reservations } from './reservations.ts'
import type { ServedModel } from './served-model.ts'

/** Metadata as stored, without the version: that is the revision of the write. */
export interface BareMeta extends Omit<ObjectMeta, 'version' | 'resourceVersion'> {
  ownerReferences?: OwnerReference[]
}

/** An object without its version, with its keys in the order of the JSON. */
export interface BareObject {
  apiVersion: string
  kind: string
  metadata: BareMeta
  spec: unknown
  status?: unknown
  [unknownField: string]: unknown
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
  readonly object: BareObject
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

/** Decodes a value of `encodeStored`. @throws SyntaxError if it is malformed */
export function decodeStored(value: Buffer): StoredObject {
  const end = value.indexOf(0x0a)
  return {
    reservations: JSON.parse(value.toString('utf8', 0, end)),
    object: JSON.parse(value.toString('utf8', end + 1)),
  }
}

/**
 * Returns the wire JSON of a stored object, with its version spliced in after the name.
 * @param from offset of the object in `json`
 */
export function wireBytes(
  served: ServedModel,
  name: string,
  json: Buffer,
  revision: Revision,
  from = 0,
): Buffer {
  const head = served.wirePrefix.length + name.length + 1
  const prefix = `${served.wirePrefix}${name}"`
  if (json.toString('latin1', from, from + head) !== prefix)
    return Buffer.from(encodeWire(served, JSON.parse(json.toString('utf8', from)), revision))
  const version = `,"version":"${revision}","resourceVersion":"${revision}"`
  const bytes = Buffer.allocUnsafe(json.length - from + version.length)
  json.copy(bytes, 0, from, from + head)
  bytes.write(version, head, 'latin1')
  json.copy(bytes, head + version.length, from + head)
  return bytes
}

/** Encodes an object that was stored under another API version of its kind. */
function encodeWire(served: ServedModel, object: BareObject, revision: Revision): string {
  return JSON.stringify(wireObject(served, object, revision))
}

/** Returns the wire form of an object, which shares its content. */
export function wireObject(served: ServedModel, object: BareObject, revision: Revision): object {
  const { name, ...rest } = object.metadata
  const version = String(revision)
  return {
    ...object,
    apiVersion: served.model.apiVersion,
    kind: served.model.kind,
    metadata: { name, version, resourceVersion: version, ...rest },
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
  served: ServedModel,
  name: string,
  wire: Buffer,
  from: Revision,
  to: Revision,
): Buffer {
  const head = served.wirePrefix.length + name.length + 1
  const before = `,"version":"${from}","resourceVersion":"${from}"`
  const after = `,"version":"${to}","resourceVersion":"${to}"`
  const bytes = Buffer.allocUnsafe(wire.length - before.length + after.length)
  wire.copy(bytes, 0, 0, head)
  bytes.write(after, head, 'latin1')
  wire.copy(bytes, head + after.length, head + before.length)
  return bytes
}
