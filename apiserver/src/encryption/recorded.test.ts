import { readFile } from 'node:fs/promises'
import { expect, it } from 'vitest'
import { UndecryptableError } from '../storage/index.ts'
import { KmsProvider } from './kms-provider.ts'
import { aesGcm, secretbox } from './local-providers.ts'
import type { Provider } from './provider.ts'

/** Values that Kubernetes has encrypted, see test/fixtures/encryption/README.md. */
const recorded: {
  readonly key: string
  readonly plaintext: string
  readonly values: Readonly<Record<string, string>>
} = JSON.parse(
  await readFile(new URL('../../../test/fixtures/encryption/values.json', import.meta.url), 'utf8'),
)

const secretOf = (length: number) => Buffer.from(Array.from({ length }, (_, at) => at))
const flip = (bytes: Buffer) => Buffer.from(bytes.map(byte => byte ^ 0xff))

/** What the service was asked to decrypt. */
let asked: object[] = []

/** Does what the recorder's plugin does. */
const flipping = () =>
  new KmsProvider(
    { type: 'kms', name: 'recorded', socket: '/nowhere', timeoutMs: 1 },
    {
      client: {
        status: async () => ({ version: 'v2', healthz: 'ok', keyId: 'recorded-key' }),
        encrypt: async plaintext => ({
          ciphertext: flip(plaintext),
          keyId: 'recorded-key',
          annotations: new Map(),
        }),
        async decrypt({ ciphertext, keyId, annotations }) {
          asked.push({ keyId, annotation: annotations.get('kms.example.com')?.toString() })
          if (keyId !== 'recorded-key') throw new UndecryptableError('is encrypted with another key')
          return flip(ciphertext)
        },
        close: () => {},
      },
    },
  )

const providers: readonly (readonly [string, () => Provider])[] = [
  ['aes128', () => aesGcm({ name: 'aes128', secret: secretOf(16) })],
  ['aes192', () => aesGcm({ name: 'aes192', secret: secretOf(24) })],
  ['aes256', () => aesGcm({ name: 'aes256', secret: secretOf(32) })],
  ['secretbox', () => secretbox({ name: 'box', secret: secretOf(32) })],
  ['kms', flipping],
  ['kmsKey', flipping],
]

it.each(providers)('a value that Kubernetes has encrypted with %s is decrypted', async (name, make) => {
  const provider = make()
  const stored = Buffer.from(recorded.values[name] ?? '', 'base64')
  expect(stored.toString('latin1', 0, provider.prefix.length)).toBe(provider.prefix)
  asked = []
  const value = await provider.decrypt(recorded.key, stored)
  if (name.startsWith('kms')) expect(asked).toEqual([{ keyId: 'recorded-key', annotation: 'recorded' }])
  expect(value.toString()).toBe(recorded.plaintext)
  // Each ciphertext is another one, and all can be read back.
  const again = await Promise.all([0, 1].map(() => provider.encrypt(recorded.key, value)))
  expect(again[0]).not.toEqual(again[1])
  for (const each of again) {
    expect(each.includes('Secret')).toBe(false)
    expect(await provider.decrypt(recorded.key, each)).toEqual(value)
  }
})

it.each(providers)('a value of %s that was moved, changed or cut off is refused', async (name, make) => {
  const provider = make()
  const stored = Buffer.from(recorded.values[name] ?? '', 'base64')
  const decrypt = async (key: string, value: Buffer) => provider.decrypt(key, value)
  await expect(decrypt('objects//secrets/default/other', stored)).rejects.toThrow(UndecryptableError)
  for (let at = provider.prefix.length; at < stored.length; at++) {
    const changed = Buffer.from(stored)
    changed[at] = (changed[at] ?? 0) ^ 1
    for (const each of [changed, stored.subarray(0, at)]) {
      const outcome = await decrypt(recorded.key, each).catch((error: unknown) => error)
      // Some bits of the form of a KMS value mean nothing, such as its annotations. None of them changes what is read.
      if (name.startsWith('kms') && String(outcome) === recorded.plaintext) continue
      expect(outcome, `at ${at}`).toBeInstanceOf(UndecryptableError)
    }
  }
})
