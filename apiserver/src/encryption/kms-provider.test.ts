import { FakeClock } from '@setpoint/controller-runtime/testing'
import { beforeEach, expect, it } from 'vitest'
import { KeyUnavailableError, UndecryptableError } from '../storage/index.ts'
import type { KmsStatus, WrappedKey } from './kms-messages.ts'
import { KmsProvider, kmsDefaults } from './kms-provider.ts'

/** A service in memory. Tests change how it behaves. */
class Service {
  status_: KmsStatus = { version: 'v2', healthz: 'ok', keyId: 'one' }
  failure: Error | undefined
  readonly calls: string[] = []
  wrap = (plaintext: Buffer): WrappedKey => ({
    ciphertext: Buffer.concat([Buffer.from(`${this.status_.keyId}:`), plaintext]),
    keyId: this.status_.keyId,
    annotations: new Map(),
  })
  unwrap = ({ ciphertext, keyId }: WrappedKey): Buffer => ciphertext.subarray(keyId.length + 1)

  async status(): Promise<KmsStatus> {
    this.#called('status')
    return this.status_
  }
  async encrypt(plaintext: Buffer): Promise<WrappedKey> {
    this.#called('encrypt')
    return this.wrap(plaintext)
  }
  async decrypt(key: WrappedKey): Promise<Buffer> {
    this.#called('decrypt')
    return this.unwrap(key)
  }
  close(): void {}

  #called(method: string): void {
    this.calls.push(method)
    if (this.failure !== undefined) throw this.failure
  }
}

const key = 'objects//secrets/default/a'
const value = Buffer.from('{}\n{}')
const silent = new KeyUnavailableError('it is silent')

let service: Service
let clock: FakeClock
let provider: KmsProvider

const open = () =>
  new KmsProvider(
    { type: 'kms', name: 'vault', socket: '/nowhere', timeoutMs: 1000 },
    { client: service, clock },
  )

beforeEach(() => {
  service = new Service()
  clock = new FakeClock()
  provider = open()
})

const encrypt = async () => provider.encrypt(key, value)
const outcome = (call: Promise<unknown>) =>
  call.then(
    () => 'ok',
    (error: unknown) => String(error),
  )

it('asks the service once for many values, and not at all for a known seed', async () => {
  const stored = await Promise.all(Array.from({ length: 20 }, encrypt))
  expect(service.calls).toEqual(['status', 'encrypt', 'decrypt'])
  for (const each of stored) expect(await provider.decrypt(key, each)).toEqual(value)
  expect(service.calls).toHaveLength(3)
  // After a restart, values of one seed that are read together ask once.
  provider = open()
  await Promise.all(stored.map(each => provider.decrypt(key, each)))
  expect(service.calls).toHaveLength(4)
  expect(provider.decrypt(key, stored[0] ?? value)).toEqual(value)
})

it('encrypts with a new seed when the service has another key, and tells which values have the old one', async () => {
  const old = await encrypt()
  service.status_ = { ...service.status_, keyId: 'two' }
  await clock.advance(kmsDefaults.refreshMs)
  // This write does not wait for the response, so it still has the seed before.
  await encrypt()
  await expect.poll(async () => provider.isCurrent(await encrypt())).toBe(true)
  await expect.poll(() => provider.isCurrent(old)).toBe(false)
  expect(await provider.decrypt(key, old)).toEqual(value)
})

it('keeps writing while a silent service was well, then refuses, and does not ask again at once', async () => {
  const stored = await encrypt()
  service.failure = silent
  await clock.advance(kmsDefaults.validMs - 1)
  expect(await outcome(encrypt())).toBe('ok')
  await expect.poll(() => service.calls.length).toBe(4)
  await clock.advance(1)
  expect(await outcome(encrypt())).toContain('it is silent')
  const asked = service.calls.length
  expect(await outcome(encrypt())).toContain('it is silent')
  expect(service.calls).toHaveLength(asked)
  // What was read before can be read.
  expect(await provider.decrypt(key, stored)).toEqual(value)
  service.failure = undefined
  await clock.advance(kmsDefaults.silentMs)
  expect(await outcome(encrypt())).toBe('ok')
})

it('reports a key that the service does not have as lost, and asks again later', async () => {
  const stored = await encrypt()
  provider = open()
  service.failure = new UndecryptableError('is encrypted with a key that is gone')
  const read = async () => provider.decrypt(key, stored)
  await expect(read()).rejects.toThrow(UndecryptableError)
  service.failure = undefined
  await expect(read()).rejects.toThrow('that is gone')
  await clock.advance(kmsDefaults.refusalMs)
  expect(await read()).toEqual(value)
})

it('does not keep a wrong seed that the service has returned', async () => {
  const stored = await encrypt()
  provider = open()
  const { unwrap } = service
  service.unwrap = () => Buffer.alloc(32, 1)
  await expect(async () => provider.decrypt(key, stored)).rejects.toThrow(UndecryptableError)
  service.unwrap = unwrap
  expect(await provider.decrypt(key, stored)).toEqual(value)
})

it.each<[string, (service: Service) => void, string]>([
  ['of another version', each => (each.status_ = { ...each.status_, version: 'v1' }), 'version "v1"'],
  ['that is not well', each => (each.status_ = { ...each.status_, healthz: 'no quorum' }), 'no quorum'],
  ['without a key', each => (each.status_ = { ...each.status_, keyId: '' }), 'names no key'],
  [
    'that names another key than it uses',
    each => {
      const { wrap } = each
      each.wrap = plaintext => ({ ...wrap(plaintext), keyId: 'other' })
    },
    'another key than its status names',
  ],
  [
    'without a ciphertext',
    each => {
      each.wrap = () => ({ ciphertext: Buffer.alloc(0), keyId: 'one', annotations: new Map() })
    },
    'ciphertext of 0 bytes',
  ],
  [
    'with too large annotations',
    each => {
      const { wrap } = each
      each.wrap = plaintext => ({
        ...wrap(plaintext),
        annotations: new Map([['a', Buffer.alloc(32 * 1024)]]),
      })
    },
    'too large annotations',
  ],
  [
    'that cannot give back what it encrypted',
    each => (each.unwrap = () => Buffer.alloc(32)),
    'does not decrypt',
  ],
])('nothing is encrypted with a service %s', async (_name, spoil, message) => {
  spoil(service)
  expect(await outcome(encrypt())).toMatch(new RegExp(`KeyUnavailableError: .*${message}`))
})
