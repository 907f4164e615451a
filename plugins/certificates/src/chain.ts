import { type KeyObject, X509Certificate } from 'node:crypto'
import type { DeepReadonly } from '@setpoint/controller-runtime'
import type { KeyPairSpec } from './key-pair.ts'
import { readKey } from './private-key.ts'

/** Certificates as PEM, and what a KeyPair holds. */

const certificate = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g

/** Reads the certificates of a PEM text. Returns none if one of them cannot be read. */
export function readChain(pem: string | undefined): readonly X509Certificate[] {
  try {
    return (pem?.match(certificate) ?? []).map(each => new X509Certificate(each))
  } catch {
    return []
  }
}

export function writeChain(chain: readonly X509Certificate[]): string {
  return chain.map(each => each.toString()).join('')
}

/** Returns the SHA-256 of a certificate in lower-case hexadecimal. */
export function fingerprintOf({ fingerprint256 }: X509Certificate): string {
  return fingerprint256.replaceAll(':', '').toLowerCase()
}

/** The times of a certificate in ms. */
export function validityOf({ validFrom, validTo }: X509Certificate): { notBefore: number; notAfter: number } {
  return { notBefore: Date.parse(validFrom), notAfter: Date.parse(validTo) }
}

/** Returns the serial number as this plugin writes it: lower-case hexadecimal of whole bytes. */
export function serialOf({ serialNumber }: X509Certificate): string {
  const hex = serialNumber.toLowerCase()
  return hex.length % 2 === 0 ? hex : `0${hex}`
}

/** What a KeyPair holds. */
export interface Holding {
  readonly key: KeyObject
  /** The certificate for the key; undefined if it is missing or damaged, or belongs to another key. */
  readonly leaf: X509Certificate | undefined
  /** The certificates above it, up to the one to trust. */
  readonly parents: readonly X509Certificate[]
}

/** Returns the content of a KeyPair, or undefined if its private key cannot be read. */
export function readHolding(
  { privateKey, certificate, ca }: DeepReadonly<KeyPairSpec>,
  passphrase: string | undefined,
): Holding | undefined {
  const key = readKey(privateKey, passphrase)
  if (key === undefined) return undefined
  const [leaf, ...intermediates] = readChain(certificate)
  if (leaf === undefined || !leaf.checkPrivateKey(key)) return { key, leaf: undefined, parents: [] }
  const [root] = readChain(ca)
  const last = intermediates.at(-1) ?? leaf
  return {
    key,
    leaf,
    parents: root === undefined || root.raw.equals(last.raw) ? intermediates : [...intermediates, root],
  }
}
