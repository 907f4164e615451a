import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  randomUUID,
} from 'node:crypto'
import { type Clock, systemClock } from '@setpoint/controller-runtime'
import { isRecord, zeroRevision } from '@setpoint/controller-runtime/api'
import { withApiErrors } from '../../registry/index.ts'
import type { KeyValue, Storage } from '../../storage/index.ts'

const day = 24 * 60 * 60_000

export const signingKeyDefaults = Object.freeze({
  /** Milliseconds that a key signs tokens. Then a new one is made. */
  rotateAfterMs: 30 * day,
  /** Milliseconds that a key verifies tokens after its successor was made: their longest life, and some for clocks. */
  keepMs: day + 60 * 60_000,
})

/** A key pair for ES256. */
interface SigningKey {
  readonly id: string
  /** Milliseconds since the epoch. */
  readonly createdAt: number
  readonly privateKey: KeyObject
  readonly publicKey: KeyObject
}

/** Outside of the objects, so that no request for objects reads it. */
const storeKey = 'authentication/service-account-keys'

/**
 * The keys that sign the tokens of service accounts. All servers of a store share them. A token that is requested when the
 * newest key is `rotateAfterMs` old makes a new one.
 */
export class SigningKeys {
  readonly #storage: Storage
  readonly #clock: Clock
  /** The newest first. */
  #keys: readonly SigningKey[] = []
  #reading: Promise<void> | undefined
  /** The read that begins when the present one has ended. */
  #next: Promise<void> | undefined

  constructor(storage: Storage, clock: Clock = systemClock) {
    this.#storage = storage
    this.#clock = clock
  }

  /** Returns the key to sign with. @throws ApiError 503 */
  async current(): Promise<SigningKey> {
    const known = this.#keys[0]
    if (known !== undefined && !this.#isOld(known)) return known
    for (;;) {
      const { pair } = await withApiErrors(this.#storage.get(storeKey))
      this.#see(pair)
      const newest = this.#keys[0]
      if (newest !== undefined && !this.#isOld(newest)) return newest
      const keys = [makeKey(this.#clock.now()), ...this.#stillUsed()]
      const { succeeded } = await withApiErrors(
        this.#storage.transact({
          compares: [{ key: storeKey, modRevision: pair?.modRevision ?? zeroRevision }],
          onSuccess: [{ type: 'put', key: storeKey, value: encode(keys) }],
        }),
      )
      // Another server may have been faster.
      if (succeeded) this.#keys = keys
    }
  }

  /** Returns a key to verify with, also one that another server has just made, or undefined. @throws ApiError 503 */
  async find(id: string): Promise<SigningKey | undefined> {
    const known = this.#keys.find(key => key.id === id)
    if (known !== undefined) return known
    // A read that is under way may be older than the key.
    this.#next ??= (this.#reading ?? Promise.resolve()).catch(() => {}).then(() => this.#read())
    await this.#next
    return this.#keys.find(key => key.id === id)
  }

  #read(): Promise<void> {
    this.#next = undefined
    this.#reading = withApiErrors(this.#storage.get(storeKey)).then(({ pair }) => this.#see(pair))
    return this.#reading
  }

  #see(pair: KeyValue | undefined): void {
    this.#keys = pair === undefined ? [] : decode(pair.value)
  }

  #isOld({ createdAt }: SigningKey): boolean {
    return this.#clock.now() - createdAt >= signingKeyDefaults.rotateAfterMs
  }

  /** The newest key signs until now. Each other one has a successor, which was made when it ceased to sign. */
  #stillUsed(): SigningKey[] {
    return this.#keys.filter((_key, at) => {
      const successor = this.#keys[at - 1]
      return successor === undefined || this.#clock.now() - successor.createdAt < signingKeyDefaults.keepMs
    })
  }
}

function makeKey(createdAt: number): SigningKey {
  const pair = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  return { id: randomUUID(), createdAt, ...pair }
}

function encode(keys: readonly SigningKey[]): Buffer {
  return Buffer.from(
    JSON.stringify(
      keys.map(({ id, createdAt, privateKey }) => ({
        id,
        createdAt,
        privateKey: privateKey.export({ format: 'jwk' }),
      })),
    ),
  )
}

function decode(value: Buffer): SigningKey[] {
  const stored: unknown = JSON.parse(value.toString())
  if (!Array.isArray(stored)) throw new Error('the keys of service accounts in the store are damaged')
  return stored.filter(isRecord).map(({ id, createdAt, privateKey: jwk }) => {
    if (!isRecord(jwk)) throw new Error('a key of service accounts in the store is damaged')
    const privateKey = createPrivateKey({ key: jwk, format: 'jwk' })
    const publicKey = createPublicKey(privateKey)
    return { id: String(id), createdAt: Number(createdAt), privateKey, publicKey }
  })
}
