import protobuf from 'protobufjs/minimal.js'

/**
 * The messages of Kubernetes' key management services (`k8s.io/kms/apis/v2`, api.proto) and its form of a value that is
 * encrypted with one (`k8s.io/apiserver/pkg/storage/value/encrypt/envelope/kmsv2/v2`, api.proto).
 */

/** What a service has told about a data key, besides the key: stored in the clear with each value. */
type Annotations = ReadonlyMap<string, Buffer>

export interface KmsStatus {
  readonly version: string
  /** `ok`, or the reason why the service is not. */
  readonly healthz: string
  /** The key that encrypts. */
  readonly keyId: string
}

/** An encrypted data key. */
export interface WrappedKey {
  readonly ciphertext: Buffer
  readonly keyId: string
  readonly annotations: Annotations
}

/** How a data key encrypts: as the key of AES-GCM, or as the seed of one key for each value. */
export const keyUses = Object.freeze({ key: 0, seed: 1 })

export interface EncryptedObject extends WrappedKey {
  readonly data: Buffer
  /** One of `keyUses`. */
  readonly use: number
}

export function decodeStatus(bytes: Buffer): KmsStatus {
  const fields = fieldsOf(bytes)
  return { version: fields.text(1), healthz: fields.text(2), keyId: fields.text(3) }
}

export function encodeEncrypt({ plaintext, uid }: { plaintext: Buffer; uid: string }): Buffer {
  return encode(writer => {
    writer.uint32(tag(1)).bytes(plaintext)
    writer.uint32(tag(2)).string(uid)
  })
}

export function decodeEncrypted(bytes: Buffer): WrappedKey {
  const fields = fieldsOf(bytes)
  return { ciphertext: fields.bytes(1), keyId: fields.text(2), annotations: fields.map(3) }
}

export function encodeDecrypt({ ciphertext, keyId, annotations, uid }: WrappedKey & { uid: string }): Buffer {
  return encode(writer => {
    writer.uint32(tag(1)).bytes(ciphertext)
    writer.uint32(tag(2)).string(uid)
    writer.uint32(tag(3)).string(keyId)
    writeMap(writer, 4, annotations)
  })
}

export function decodeDecrypted(bytes: Buffer): Buffer {
  return fieldsOf(bytes).bytes(1)
}

export function encodeObject({ data, keyId, ciphertext, annotations, use }: EncryptedObject): Buffer {
  return encode(writer => {
    writer.uint32(tag(1)).bytes(data)
    writer.uint32(tag(2)).string(keyId)
    writer.uint32(tag(3)).bytes(ciphertext)
    writeMap(writer, 4, annotations)
    // A zero is left out.
    if (use !== 0) writer.uint32((5 << 3) | varint).uint32(use)
  })
}

/** @throws Error if it is malformed */
export function decodeObject(bytes: Buffer): EncryptedObject {
  const fields = fieldsOf(bytes)
  return {
    data: fields.bytes(1),
    keyId: fields.text(2),
    ciphertext: fields.bytes(3),
    annotations: fields.map(4),
    use: fields.number(5),
  }
}

/** Wire types. All fields are of these. */
const varint = 0
const lengthDelimited = 2

const tag = (field: number) => (field << 3) | lengthDelimited

function encode(write: (writer: protobuf.Writer) => void): Buffer {
  const writer = protobuf.Writer.create()
  write(writer)
  return Buffer.from(writer.finish())
}

function writeMap(writer: protobuf.Writer, field: number, entries: Annotations): void {
  for (const [key, value] of entries) {
    writer.uint32(tag(field)).fork()
    writer.uint32(tag(1)).string(key)
    writer.uint32(tag(2)).bytes(value)
    writer.ldelim()
  }
}

/** The fields of a message. One that is absent has the empty value, as in proto3. */
interface Fields {
  bytes(field: number): Buffer
  text(field: number): string
  number(field: number): number
  map(field: number): Annotations
}

/** @throws Error if the message is malformed */
function fieldsOf(bytes: Buffer): Fields {
  const reader = new protobuf.BufferReader(bytes)
  const contents = new Map<number, Buffer[]>()
  const numbers = new Map<number, number>()
  while (reader.pos < reader.len) {
    const head = reader.uint32()
    const [field, type] = [head >>> 3, head & 7]
    if (type === lengthDelimited)
      contents.set(field, [...(contents.get(field) ?? []), Buffer.from(reader.bytes())])
    else if (type === varint) numbers.set(field, reader.uint32())
    else reader.skipType(type)
  }
  const last = (field: number) => contents.get(field)?.at(-1) ?? Buffer.alloc(0)
  return {
    bytes: last,
    text: field => last(field).toString(),
    number: field => numbers.get(field) ?? 0,
    map: field =>
      new Map(
        (contents.get(field) ?? []).map(entry => {
          const fields = fieldsOf(entry)
          return [fields.text(1), fields.bytes(2)] as const
        }),
      ),
  }
}
