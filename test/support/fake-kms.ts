import { randomBytes } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { Server, ServerCredentials, status } from '@grpc/grpc-js'
import protobuf from 'protobufjs'

/**
 * A key management service of Kubernetes (KMS v2) on a Unix socket, which tests can stop, silence and have lose its
 * keys.
 */

const { root } = protobuf.parse(`syntax = "proto3"; package v2;
message StatusRequest {}
message StatusResponse { string version = 1; string healthz = 2; string key_id = 3; }
message DecryptRequest { bytes ciphertext = 1; string uid = 2; string key_id = 3; map<string, bytes> annotations = 4; }
message DecryptResponse { bytes plaintext = 1; }
message EncryptRequest { bytes plaintext = 1; string uid = 2; }
message EncryptResponse { bytes ciphertext = 1; string key_id = 2; map<string, bytes> annotations = 3; }`)

const methodOf = (name: 'Status' | 'Encrypt' | 'Decrypt') => {
  const [request, response] = [root.lookupType(`v2.${name}Request`), root.lookupType(`v2.${name}Response`)]
  return {
    path: `/v2.KeyManagementService/${name}`,
    requestStream: false as const,
    responseStream: false as const,
    requestDeserialize: (bytes: Buffer): { plaintext?: Buffer; ciphertext?: Buffer; keyId?: string } => {
      const { plaintext, ciphertext, keyId } = request.toObject(request.decode(bytes), { bytes: Buffer })
      return { plaintext, ciphertext, keyId }
    },
    responseSerialize: (value: object) => Buffer.from(response.encode(response.create(value)).finish()),
    requestSerialize: () => Buffer.alloc(0),
    responseDeserialize: () => ({}),
  }
}

export class FakeKms {
  readonly endpoint: string
  readonly #socket: string
  #server: Server | undefined
  /** The key that encrypts. */
  keyId = 'first'
  /** True to accept calls and never respond. */
  hangs = false
  /** Keys that it no longer has. */
  readonly lost = new Set<string>()
  readonly calls = { Status: 0, Encrypt: 0, Decrypt: 0 }
  /** What it protects, by its ciphertext. */
  readonly #kept = new Map<string, Buffer>()

  constructor(socket: string) {
    this.#socket = socket
    this.endpoint = `unix://${socket}`
  }

  async start(): Promise<void> {
    const server = new Server()
    const called = (name: keyof FakeKms['calls'], respond: (ask: Asked) => object | undefined) => {
      return ({ request }: { request: Asked }, callback: Callback) => {
        this.calls[name]++
        if (this.hangs) return
        const response = respond(request)
        if (response === undefined) callback({ code: status.NOT_FOUND, details: 'the key is gone' })
        else callback(null, response)
      }
    }
    server.addService(
      { Status: methodOf('Status'), Encrypt: methodOf('Encrypt'), Decrypt: methodOf('Decrypt') },
      {
        Status: called('Status', () => ({ version: 'v2', healthz: 'ok', keyId: this.keyId })),
        Encrypt: called('Encrypt', ({ plaintext = Buffer.alloc(0) }) => {
          const ciphertext = randomBytes(64)
          this.#kept.set(ciphertext.toString('hex'), Buffer.from(plaintext))
          return { ciphertext, keyId: this.keyId, annotations: { 'kms.example.com': Buffer.from('x') } }
        }),
        Decrypt: called('Decrypt', ({ ciphertext, keyId = '' }) => {
          const plaintext = this.#kept.get(ciphertext?.toString('hex') ?? '')
          return this.lost.has(keyId) || plaintext === undefined ? undefined : { plaintext }
        }),
      },
    )
    await new Promise<void>((resolve, reject) =>
      server.bindAsync(`unix:${this.#socket}`, ServerCredentials.createInsecure(), error =>
        error === null ? resolve() : reject(error),
      ),
    )
    this.#server = server
  }

  async stop(): Promise<void> {
    this.#server?.forceShutdown()
    this.#server = undefined
    await rm(this.#socket, { force: true })
  }
}

interface Asked {
  readonly plaintext?: Buffer
  readonly ciphertext?: Buffer
  readonly keyId?: string
}

type Callback = (error: { readonly code: status; readonly details: string } | null, value?: object) => void
