import { randomUUID } from 'node:crypto'
import { Client, credentials, type ServiceError, status } from '@grpc/grpc-js'
import { KeyUnavailableError, UndecryptableError } from '../storage/index.ts'
import type { KmsConfiguration } from './configuration.ts'
import {
  decodeDecrypted,
  decodeEncrypted,
  decodeStatus,
  encodeDecrypt,
  encodeEncrypt,
  type KmsStatus,
  type WrappedKey,
} from './kms-messages.ts'

/** gRPC's defaults wait for up to two minutes before they connect to a service that is back. */
const channelOptions = Object.freeze({
  'grpc.initial_reconnect_backoff_ms': 200,
  'grpc.max_reconnect_backoff_ms': 1_000,
  'grpc.max_receive_message_length': 128 * 1024,
  'grpc.enable_http_proxy': 0,
})

/** Codes of a service that may respond later. With any other code it has decided about the key. */
const temporary: readonly status[] = [
  status.UNAVAILABLE,
  status.DEADLINE_EXCEEDED,
  status.RESOURCE_EXHAUSTED,
  status.ABORTED,
  status.CANCELLED,
]

/** Calls a key management service, version 2, over its Unix socket. Each call has a deadline. */
export class KmsClient {
  readonly #name: string
  readonly #timeoutMs: number
  readonly #client: Client

  constructor({ name, socket, timeoutMs }: KmsConfiguration) {
    this.#name = name
    this.#timeoutMs = timeoutMs
    this.#client = new Client(`unix:${socket}`, credentials.createInsecure(), channelOptions)
  }

  /** @throws KeyUnavailableError */
  async status(): Promise<KmsStatus> {
    return decodeStatus(await this.#ask('Status', Buffer.alloc(0)))
  }

  /** @throws KeyUnavailableError */
  async encrypt(plaintext: Buffer): Promise<WrappedKey> {
    return decodeEncrypted(await this.#ask('Encrypt', encodeEncrypt({ plaintext, uid: randomUUID() })))
  }

  /** @throws UndecryptableError if the service says that it cannot; KeyUnavailableError */
  async decrypt(key: WrappedKey): Promise<Buffer> {
    const request = encodeDecrypt({ ...key, uid: randomUUID() })
    return decodeDecrypted(
      await this.#ask('Decrypt', request, ({ details, code }) => {
        const why = `is encrypted with the key ${JSON.stringify(key.keyId)} of the key service ${JSON.stringify(this.#name)}`
        return temporary.includes(code)
          ? undefined
          : new UndecryptableError(`${why}, which does not decrypt it: ${details || status[code]}`)
      }),
    )
  }

  close(): void {
    this.#client.close()
  }

  #ask(
    method: 'Status' | 'Encrypt' | 'Decrypt',
    request: Buffer,
    refusal: (error: ServiceError) => Error | undefined = () => undefined,
  ): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      this.#client.makeUnaryRequest(
        `/v2.KeyManagementService/${method}`,
        (message: Buffer) => message,
        (message: Buffer) => message,
        request,
        { deadline: Date.now() + this.#timeoutMs },
        (error, response) => {
          if (response !== undefined) resolve(response)
          else if (error !== null) reject(refusal(error) ?? this.#unavailable(method, error))
          else reject(new KeyUnavailableError(`the key service ${this.#name} did not respond to ${method}`))
        },
      )
    })
  }

  #unavailable(method: string, error: ServiceError): KeyUnavailableError {
    const reason =
      error.code === status.DEADLINE_EXCEEDED ? `no response in ${this.#timeoutMs} ms` : error.details
    return new KeyUnavailableError(
      `${method} of the key service ${JSON.stringify(this.#name)} failed: ${reason}`,
      {
        cause: error,
      },
    )
  }
}
