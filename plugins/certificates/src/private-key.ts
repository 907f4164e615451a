import { createPrivateKey, generateKeyPair, type KeyObject } from 'node:crypto'
import { promisify } from 'node:util'
import type { KeyAlgorithm } from './certificate.ts'

/** Private keys: generated, written as PEM, read, and compared with a request. */

/** The wanted kind of a key. */
export interface KeyRequest {
  readonly algorithm: KeyAlgorithm
  /** In bits; undefined for Ed25519. */
  readonly size: number | undefined
}

const curves: Readonly<Record<number, string>> = { 256: 'prime256v1', 384: 'secp384r1', 521: 'secp521r1' }
const generate = promisify(generateKeyPair)

/** Fulfilled when the last RSA key that was asked for is ready, or has failed. */
let lastRsaKey: Promise<unknown> = Promise.resolve()

/**
 * Generates a key. It comes from the system's randomness and not from a source of the context, because a key of RSA
 * cannot be derived from a few drawn bytes.
 *
 * RSA keys are generated one after another, in all of the process. Each takes one of libuv's four threads for seconds,
 * and the embedded store needs them for its commits.
 * @throws the signal's reason if it is aborted before the key's turn
 */
export async function generateKey({ algorithm, size }: KeyRequest, signal?: AbortSignal): Promise<KeyObject> {
  switch (algorithm) {
    case 'RSA': {
      const generated = lastRsaKey.then(() => {
        signal?.throwIfAborted()
        return generate('rsa', { modulusLength: size ?? 2048 })
      })
      lastRsaKey = generated.catch(() => {})
      return (await generated).privateKey
    }
    case 'ECDSA':
      return (await generate('ec', { namedCurve: curves[size ?? 256] ?? 'prime256v1' })).privateKey
    case 'Ed25519':
      return (await generate('ed25519')).privateKey
  }
}

/** Returns true if the key is of the wanted algorithm and size. */
export function isOfKind(key: KeyObject, { algorithm, size }: KeyRequest): boolean {
  const { modulusLength, namedCurve } = key.asymmetricKeyDetails ?? {}
  switch (algorithm) {
    case 'RSA':
      return key.asymmetricKeyType === 'rsa' && modulusLength === (size ?? 2048)
    case 'ECDSA':
      return key.asymmetricKeyType === 'ec' && namedCurve === curves[size ?? 256]
    case 'Ed25519':
      return key.asymmetricKeyType === 'ed25519'
  }
}

/** Returns the key as PEM in PKCS #8, encrypted if there is a passphrase. */
export function writeKey(key: KeyObject, passphrase: string | undefined): string {
  const encryption = passphrase === undefined ? {} : { cipher: 'aes-256-cbc', passphrase }
  return key.export({ type: 'pkcs8', format: 'pem', ...encryption }).toString()
}

/** Reads a key, encrypted or not. Returns undefined if it is damaged, or has another passphrase. */
export function readKey(pem: string, passphrase: string | undefined): KeyObject | undefined {
  try {
    // Without a passphrase, OpenSSL would ask for one on the terminal.
    return createPrivateKey({ key: pem, passphrase: passphrase ?? '' })
  } catch {
    return undefined
  }
}
