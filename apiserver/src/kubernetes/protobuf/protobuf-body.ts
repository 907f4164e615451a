import { ApiError } from '@setpoint/controller-runtime/api'
import { quote } from '../../model/index.ts'
import { protobufType } from '../media-types.ts'
import { type KindName, structOf } from '../types/built-in-types.ts'
import { goStructs } from '../types/go-structs.ts'
import { MessageJson } from './message-json.ts'
import { FieldCount, malformed, maxWireFields, type WireValue, wireFields } from './wire-fields.ts'

/** The kind of the options of a DELETE. Each group version has it. */
const deleteOptions = 'DeleteOptions'

/** The first bytes of every object. */
export const magic = Buffer.from('k8s\0')

/**
 * Decodes a protobuf body of Kubernetes: the magic bytes, then a `runtime.Unknown` with the kind and the message.
 * Returns the JSON that Kubernetes' client for Go sends instead.
 * @param expected names the kind of a body without one, as in Kubernetes
 * @throws ApiError 400 for a malformed body and for an unknown kind; 413 for too many fields
 */
export function decodeProtobuf(body: Buffer, expected: KindName): object {
  if (body.length === 0) throw new ApiError('BadRequest', 'the body is empty, expected a document')
  if (!body.subarray(0, magic.length).equals(magic))
    throw malformed('it does not begin with the bytes 6b 38 73 00')
  const count = new FieldCount(maxWireFields)
  const unknown = wireFields(body.subarray(magic.length), count)
  const typeMeta = wireFields(bytesOf(unknown.get(1)), count)
  const apiVersion = textOf(typeMeta.get(1)) || expected.apiVersion
  const kind = textOf(typeMeta.get(2)) || expected.kind
  const contentEncoding = textOf(unknown.get(3))
  if (contentEncoding !== '')
    throw malformed(`the content encoding ${quote(contentEncoding)} is not supported`)
  const contentType = textOf(unknown.get(4))
  if (contentType !== '' && contentType !== protobufType)
    throw malformed(`the content type ${quote(contentType)} is not supported in it`)
  const struct = kind === deleteOptions ? 'meta.v1.DeleteOptions' : structOf({ apiVersion, kind })
  if (struct === undefined) {
    throw new ApiError('BadRequest', `no kind ${quote(kind)} is registered for version ${quote(apiVersion)}`)
  }
  return { kind, apiVersion, ...new MessageJson(goStructs).object(struct, bytesOf(unknown.get(2))) }
}

function bytesOf(values: readonly WireValue[] = []): Buffer {
  const value = values.at(-1) ?? Buffer.alloc(0)
  if (typeof value === 'number') throw malformed('its envelope has a field of the wrong wire type')
  return value
}

function textOf(values: readonly WireValue[] | undefined): string {
  return bytesOf(values).toString()
}
