import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  randomUUID,
} from 'node:crypto'
import { type Clock, systemClock } from '@setpoint/controller-runtime'
import { ApiError, isRecord, zeroRevision } from '@setpoint/controller-runtime/api'
import { retryAfterSeconds } from '@setpoint/controller-runtime/internal'
import { withApiErrors } from '../../registry/index.ts'
import { type KeyValue, type Storage, undecrypted } from '../../storage/index.ts'

const day = 24 * 60 * 60_000

export const signingKeyDefaults = Object.freeze({
  /** Milliseconds until a new key is made. */
  rotateAfterMs: 30 * day,
  /** Milliseconds that a new key is only listed, so that those who have read the keys before learn of it in time. */
  announceMs: 2 * 60 * 60_000,
  /**
   * Milliseconds that a key verifies tokens after its successor has begun to sign: their longest life, and some for
   * clocks.
   */
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
 * The keys that sign the tokens of service accounts. All servers of a store share them. A token that is requested when
 * the newest key is `rotateAfterMs` old makes a new one:
 *
 *     made ── announceMs ──▶ signs ──▶ successor made ── announceMs ──▶ verifies ── keepMs ──▶ dropped by the next new key
 *
 * The first key signs at once.
 */
export class SigningKeys {
  readonly #storage: Storage
  readonly #clock: Clock
  /** The newest first. */
  #keys: readonly SigningKey[] = []
  #reading: Promise<void> | undefined
  /** The read that begins when the present one has ended. */
  #next: Promise<void> | undefined
  #isReadable = true

  constructor(storage: Storage, clock: Clock = systemClock) {
    this.#storage = storage
    this.#clock = clock
  }

  /** Returns the key to sign with. @throws ApiError 503 */
  async current(): Promise<SigningKey> {
    const known = this.#signing()
    if (known !== undefined) return known
    for (;;) {
      const { pair } = await withApiErrors(this.#storage.get(storeKey))
      this.#see(pair)
      const signing = this.#signing()
      if (signing !== undefined) return signing
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

  /** Returns all keys that verify tokens, or will, also those of other servers. @throws ApiError 503 */
  async all(): Promise<readonly SigningKey[]> {
    await this.#readAfresh()
    return this.#keys
  }

  /** Returns a key to verify with, also one that another server has just made, or undefined. @throws ApiError 503 */
  async find(id: string): Promise<SigningKey | undefined> {
    const known = this.#keys.find(key => key.id === id)
    if (known !== undefined) return known
    await this.#readAfresh()
    return this.#keys.find(key => key.id === id)
  }

  /** False if the latest read has found keys that cannot be decrypted, or are malformed. */
  get isReadable(): boolean {
    return this.#isReadable
  }

  /**
   * Reads the keys, so that `isReadable` is known before a token needs them, and removed keys are forgotten. Never
   * rejects.
   */
  check(): Promise<void> {
    // The store reports its outages itself.
    return this.#readAfresh().catch(() => {})
  }

  /** A read that is under way may be older than the newest key. */
  #readAfresh(): Promise<void> {
    this.#next ??= (this.#reading ?? Promise.resolve()).catch(() => {}).then(() => this.#read())
    return this.#next
  }

  #read(): Promise<void> {
    this.#next = undefined
    this.#reading = withApiErrors(this.#storage.get(storeKey)).then(({ pair }) => this.#see(pair))
    return this.#reading
  }

  #see(pair: KeyValue | undefined): void {
    this.#isReadable = false
    const failure = pair && undecrypted(pair)
    if (failure !== undefined) throw undecryptable(failure)
    this.#keys = pair === undefined ? [] : decode(pair.value)
    this.#isReadable = true
  }

  /** Returns the newest key that has been announced, or the first one. Undefined if a new one must be made. */
  #signing(): SigningKey | undefined {
    const { rotateAfterMs, announceMs } = signingKeyDefaults
    const [newest] = this.#keys
    if (newest === undefined || this.#ageOf(newest) >= rotateAfterMs) return undefined
    return this.#keys.find(key => this.#ageOf(key) >= announceMs) ?? this.#keys.at(-1)
  }

  /** The newest key has no successor yet. */
  #stillUsed(): SigningKey[] {
    const { announceMs, keepMs } = signingKeyDefaults
    return this.#keys.filter((_key, at) => {
      const successor = this.#keys[at - 1]
      return successor === undefined || this.#ageOf(successor) < announceMs + keepMs
    })
  }

  #ageOf({ createdAt }: SigningKey): number {
    return this.#clock.now() - createdAt
  }
}

/** Tokens cannot be checked until the key is back. New keys would make every token invalid. */
function undecryptable(cause: Error): ApiError {
  const message = `the keys of service accounts cannot be read: their stored value ${cause.message}`
  return new ApiError('ServiceUnavailable', message, { retryAfterSeconds }, { cause })
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
