import protobuf from 'protobufjs/minimal.js'

/** Encodes protobuf bodies of Kubernetes, well-formed or not. */

/** The number and value of a field: an integer, or a text or bytes with their length. */
export type Field = readonly [number: number, value: string | number | Uint8Array]

/** The first bytes of a body. */
export const magic = Buffer.from('k8s\0')

const varint = 0
const lengthDelimited = 2

export function encodeMessage(...fields: readonly Field[]): Uint8Array {
  const writer = protobuf.Writer.create()
  for (const [number, value] of fields) {
    const wireType = typeof value === 'number' ? varint : lengthDelimited
    writer.uint32((number << 3) | wireType)
    if (typeof value === 'number') writer.int64(value)
    else if (typeof value === 'string') writer.string(value)
    else writer.bytes(value)
  }
  return writer.finish()
}

/** @param more fields of the envelope, `runtime.Unknown` */
export function encodeBody(
  { apiVersion, kind }: { readonly apiVersion: string; readonly kind: string },
  message: Uint8Array,
  ...more: readonly Field[]
): Buffer {
  const typeMeta = encodeMessage([1, apiVersion], [2, kind])
  return Buffer.concat([magic, encodeMessage([1, typeMeta], [2, message], ...more)])
}
