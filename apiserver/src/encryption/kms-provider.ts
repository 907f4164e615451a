import { createHmac, randomBytes } from 'node:crypto'
import { type Clock, systemClock } from '@setpoint/controller-runtime'
import { LRUCache } from 'lru-cache'
import { encryptedPrefix, KeyUnavailableError, UndecryptableError } from '../storage/index.ts'
import type { KmsConfiguration } from './configuration.ts'
import { KmsClient } from './kms-client.ts'
import { decodeObject, type EncryptedObject, encodeObject, keyUses, type WrappedKey } from './kms-messages.ts'
import { openGcm, sealGcm } from './local-providers.ts'
import type { MaybeLater, Provider } from './provider.ts'

export const kmsDefaults = Object.freeze({
  /**
   * Milliseconds after which a write asks again which key the service uses, as in Kubernetes. The write does not wait.
   */
  refreshMs: 60_000,
  /**
   * Milliseconds that a seed encrypts after the service was last well, as in Kubernetes. Then writes wait for the
   * service.
   */
  validMs: 3 * 60_000,
  /**
   * Milliseconds that a silent service is not asked again: calls fail at once, so that they do not wait one after the
   * other.
   */
  silentMs: 1_000,
  /** Milliseconds that a refusal of the service to decrypt a seed stands. */
  refusalMs: 10_000,
  /** Seeds kept: each server makes one at its start, and one for each key of the service. */
  seeds: 1_000,
})

/** Bytes of a seed, and of the random part that makes a key of it, as in Kubernetes. */
const seedBytes = 32

/** Bytes that the interface of Kubernetes allows. */
const bounds = Object.freeze({ keyId: 1024, ciphertext: 1024, annotations: 32 * 1024 })

type KeyService = Pick<KmsClient, 'status' | 'encrypt' | 'decrypt' | 'close'>

/** A seed that encrypts. */
interface Writer {
  readonly seed: Buffer
  readonly wrapped: WrappedKey
  /** Monotonic times. */
  refreshAt: number
  validUntil: number
}

/**
 * Encrypts with keys that a key management service protects, as Kubernetes does with KMS v2. The service encrypts a
 * random seed; every value has a key of its own, made from the seed and random bytes, and carries the encrypted seed.
 * The seed stays in memory, so the service is asked for new seeds only.
 *
 *     no seed ──Status, Encrypt, Decrypt──▶ current ──refreshMs, Status: same key──▶ current
 *        ▲                                    │
 *        └── validMs without a good Status ───┴── Status: another key ──▶ no seed
 */
export class KmsProvider implements Provider {
  readonly prefix: string
  readonly #name: string
  readonly #head: Buffer
  readonly #client: KeyService
  readonly #clock: Clock
  readonly #seeds = new LRUCache<string, Buffer>({ max: kmsDefaults.seeds })
  readonly #refusals = new LRUCache<string, { readonly error: UndecryptableError; readonly until: number }>({
    max: kmsDefaults.seeds,
  })
  readonly #asked = new Map<string, Promise<Buffer>>()
  #writer: Writer | undefined
  #refreshing: Promise<Writer> | undefined
  #silence: { readonly error: KeyUnavailableError; readonly until: number } | undefined

  constructor(
    configuration: KmsConfiguration,
    {
      client = new KmsClient(configuration),
      clock = systemClock,
    }: { client?: KeyService; clock?: Clock } = {},
  ) {
    this.#name = configuration.name
    this.prefix = `${encryptedPrefix}kms:v2:${configuration.name}:`
    this.#head = Buffer.from(this.prefix)
    this.#client = client
    this.#clock = clock
  }

  encrypt(key: string, value: Uint8Array): MaybeLater<Buffer> {
    const seal = ({ seed, wrapped }: Writer): Buffer => {
      const info = randomBytes(seedBytes)
      const data = Buffer.concat([info, sealGcm(keyOf(seed, info), key, value)])
      return Buffer.concat([this.#head, encodeObject({ ...wrapped, data, use: keyUses.seed })])
    }
    const writer = this.#current()
    return writer instanceof Promise ? writer.then(seal) : seal(writer)
  }

  decrypt(key: string, stored: Buffer): MaybeLater<Buffer> {
    const object = this.#parse(stored)
    const id = idOf(object)
    const known = this.#seeds.get(id)
    if (known !== undefined) return this.#open(key, object, known)
    return this.#seedOf(id, object).then(seed => {
      const value = this.#open(key, object, seed)
      // Only a seed that has decrypted something: a service may return another one by mistake.
      this.#seeds.set(id, seed)
      return value
    })
  }

  isCurrent(stored: Buffer): MaybeLater<boolean> {
    const { keyId, use } = this.#parse(stored)
    const isOf = ({ wrapped }: Writer) => wrapped.keyId === keyId && use === keyUses.seed
    const writer = this.#current()
    return writer instanceof Promise ? writer.then(isOf) : isOf(writer)
  }

  close(): void {
    this.#client.close()
  }

  #open(key: string, { data, use, keyId }: EncryptedObject, seed: Buffer): Buffer {
    try {
      if (use === keyUses.key) return openGcm(seed, key, data)
      return openGcm(keyOf(seed, data.subarray(0, seedBytes)), key, data.subarray(seedBytes))
    } catch (cause) {
      throw new UndecryptableError(
        `is encrypted with the key ${JSON.stringify(keyId)} of the key service ${JSON.stringify(this.#name)}, whose data key does not decrypt it: the service returned another one, or the value was changed or moved`,
        { cause },
      )
    }
  }

  #parse(stored: Buffer): EncryptedObject {
    try {
      const object = decodeObject(stored.subarray(this.#head.length))
      const isWhole =
        object.data.length > seedBytes && (object.use === keyUses.key || object.use === keyUses.seed)
      if (isWhole && problemOf(object) === undefined) return object
    } catch {
      // As if it were incomplete.
    }
    throw new UndecryptableError(`is encrypted by the key service ${JSON.stringify(this.#name)}, and damaged`)
  }

  /** Asks once for all who need the same seed. */
  #seedOf(id: string, wrapped: WrappedKey): Promise<Buffer> {
    const refusal = this.#refusals.get(id)
    if (refusal !== undefined && this.#clock.monotonic() < refusal.until) return Promise.reject(refusal.error)
    const asked = this.#asked.get(id)
    if (asked !== undefined) return asked
    const asking = this.#whileHeard(() => this.#client.decrypt(wrapped))
      .then(seed => {
        if (seed.length < 16)
          throw new UndecryptableError(
            `is encrypted by the key service ${JSON.stringify(this.#name)}, which returned a data key of ${seed.length} bytes`,
          )
        return seed
      })
      .catch((error: unknown) => {
        if (error instanceof UndecryptableError)
          this.#refusals.set(id, { error, until: this.#clock.monotonic() + kmsDefaults.refusalMs })
        throw error
      })
      .finally(() => this.#asked.delete(id))
    this.#asked.set(id, asking)
    return asking
  }

  /** Returns the seed that encrypts. */
  #current(): MaybeLater<Writer> {
    const now = this.#clock.monotonic()
    const writer = this.#writer
    if (writer === undefined || now >= writer.validUntil) return this.#refresh()
    // The seed is still valid, so a failure is not this write's.
    if (now >= writer.refreshAt) this.#refresh().catch(() => {})
    return writer
  }

  #refresh(): Promise<Writer> {
    this.#refreshing ??= this.#whileHeard(() => this.#ask()).finally(() => {
      this.#refreshing = undefined
    })
    return this.#refreshing
  }

  async #ask(): Promise<Writer> {
    const { version, healthz, keyId } = await this.#client.status()
    if (version !== 'v2' && version !== 'v2beta1')
      throw this.#unusable(`has the version ${JSON.stringify(version)}, not v2`)
    if (healthz !== 'ok') throw this.#unusable(`is not well: ${healthz.slice(0, 200)}`)
    const until = this.#clock.monotonic()
    const times = { refreshAt: until + kmsDefaults.refreshMs, validUntil: until + kmsDefaults.validMs }
    if (this.#writer?.wrapped.keyId === keyId) return Object.assign(this.#writer, times)
    const seed = randomBytes(seedBytes)
    const wrapped = await this.#client.encrypt(seed)
    const problem = problemOf(wrapped)
    if (problem !== undefined) throw this.#unusable(problem)
    if (wrapped.keyId !== keyId) throw this.#unusable('has encrypted with another key than its status names')
    // What a service cannot give back would be lost at the next start.
    const returned = await this.#client.decrypt(wrapped).catch((error: unknown) => {
      throw error instanceof UndecryptableError
        ? this.#unusable('does not decrypt what it has encrypted')
        : error
    })
    if (!returned.equals(seed)) throw this.#unusable('does not decrypt what it has encrypted')
    this.#seeds.set(idOf(wrapped), seed)
    this.#writer = { seed, wrapped, ...times }
    return this.#writer
  }

  /** Fails at once for a moment after the service was silent. */
  async #whileHeard<T>(ask: () => Promise<T>): Promise<T> {
    const silence = this.#silence
    if (silence !== undefined && this.#clock.monotonic() < silence.until) throw silence.error
    try {
      const result = await ask()
      this.#silence = undefined
      return result
    } catch (error) {
      if (error instanceof KeyUnavailableError)
        this.#silence = { error, until: this.#clock.monotonic() + kmsDefaults.silentMs }
      throw error
    }
  }

  #unusable(problem: string): KeyUnavailableError {
    return new KeyUnavailableError(`the key service ${JSON.stringify(this.#name)} ${problem}`)
  }
}

/** Returns how a response of the service breaks its interface, or undefined. */
function problemOf({ ciphertext, keyId, annotations }: WrappedKey): string | undefined {
  if (keyId === '' || Buffer.byteLength(keyId) > bounds.keyId)
    return 'names no key, or one with too long a name'
  if (ciphertext.length === 0 || ciphertext.length > bounds.ciphertext)
    return `has returned a ciphertext of ${ciphertext.length} bytes`
  const bytes = Array.from(annotations, ([name, value]) => Buffer.byteLength(name) + value.length)
  if (bytes.reduce((sum, each) => sum + each, 0) > bounds.annotations)
    return 'has returned too large annotations'
  return undefined
}

function idOf({ ciphertext, keyId }: WrappedKey): string {
  return `${ciphertext.toString('latin1')}:${keyId}`
}

/** HKDF-Expand of RFC 5869 with SHA-256, for a key of 32 bytes: the first block. */
function keyOf(seed: Buffer, info: Buffer): Buffer {
  return createHmac('sha256', seed).update(info).update(firstBlock).digest()
}

const firstBlock = Buffer.from([1])
