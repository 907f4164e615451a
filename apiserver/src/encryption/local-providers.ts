import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto'
import { xsalsa20poly1305 } from '@noble/ciphers/salsa.js'
import { encryptedPrefix, isEncrypted, UndecryptableError } from '../storage/index.ts'
import type { LocalKey } from './configuration.ts'
import type { Provider } from './provider.ts'

/** Stores values in the clear. As in Kubernetes, it does not take an encrypted value for one in the clear. */
export const identity: Provider = Object.freeze({
  prefix: '',
  encrypt: (_key: string, value: Uint8Array) => bufferOf(value),
  decrypt: (_key: string, stored: Buffer) => stored,
  isCurrent: (stored: Buffer) => !isEncrypted(stored),
  close: () => {},
})

/** AES-GCM with a random nonce before each ciphertext. The key in the store is authenticated with it. */
export function aesGcm({ name, secret }: LocalKey): Provider {
  const prefix = `${encryptedPrefix}aesgcm:v1:${name}:`
  const head = Buffer.from(prefix)
  return {
    prefix,
    encrypt: (key, value) => Buffer.concat([head, sealGcm(secret, key, value)]),
    decrypt: (key, stored) => {
      try {
        return openGcm(secret, key, stored.subarray(head.length))
      } catch (error) {
        throw notOpened('aesgcm', name, error)
      }
    },
    isCurrent: () => true,
    close: () => {},
  }
}

/**
 * XSalsa20-Poly1305, the secretbox of NaCl. It has no authenticated data besides the value, so the hash of the key in
 * the store is encrypted before the value.
 */
export function secretbox({ name, secret }: LocalKey): Provider {
  const prefix = `${encryptedPrefix}secretbox:v1:${name}:`
  const head = Buffer.from(prefix)
  const nonceBytes = 24
  return {
    prefix,
    encrypt: (key, value) => {
      const nonce = randomBytes(nonceBytes)
      const bound = Buffer.concat([placeOf(key), value])
      return Buffer.concat([head, nonce, xsalsa20poly1305(secret, nonce).encrypt(bound)])
    },
    decrypt: (key, stored) => {
      const sealed = stored.subarray(head.length)
      let bound: Buffer
      try {
        const [nonce, box] = [sealed.subarray(0, nonceBytes), sealed.subarray(nonceBytes)]
        bound = bufferOf(xsalsa20poly1305(secret, nonce).decrypt(box))
      } catch (error) {
        throw notOpened('secretbox', name, error)
      }
      const place = placeOf(key)
      if (!bound.subarray(0, place.length).equals(place)) throw notOpened('secretbox', name)
      return bound.subarray(place.length)
    },
    isCurrent: () => true,
    close: () => {},
  }
}

const gcmBytes = Object.freeze({ nonce: 12, tag: 16 })

/** Returns nonce, ciphertext and tag. */
export function sealGcm(secret: Buffer, key: string, value: Uint8Array): Buffer {
  const nonce = randomBytes(gcmBytes.nonce)
  const cipher = createCipheriv(gcmOf(secret), secret, nonce).setAAD(Buffer.from(key))
  return Buffer.concat([nonce, cipher.update(value), cipher.final(), cipher.getAuthTag()])
}

/** @throws Error if the value was not sealed with this secret for this key */
export function openGcm(secret: Buffer, key: string, sealed: Buffer): Buffer {
  const { nonce, tag } = gcmBytes
  if (sealed.length < nonce + tag) throw new Error('the value is too short')
  const decipher = createDecipheriv(gcmOf(secret), secret, sealed.subarray(0, nonce), { authTagLength: tag })
  decipher.setAAD(Buffer.from(key)).setAuthTag(sealed.subarray(-tag))
  return Buffer.concat([decipher.update(sealed.subarray(nonce, -tag)), decipher.final()])
}

function gcmOf({ length }: Buffer): 'aes-128-gcm' | 'aes-192-gcm' | 'aes-256-gcm' {
  return length === 16 ? 'aes-128-gcm' : length === 24 ? 'aes-192-gcm' : 'aes-256-gcm'
}

/** Of one length, so that a place cannot run into a value. */
function placeOf(key: string): Buffer {
  return createHash('sha256').update(key).digest()
}

function notOpened(algorithm: string, name: string, cause?: unknown): UndecryptableError {
  return new UndecryptableError(
    `is encrypted with the key ${JSON.stringify(name)} of ${algorithm}, and the key of that name in --encryption-provider-config does not decrypt it: it is another key, or the value was changed or moved`,
    { cause },
  )
}

function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
