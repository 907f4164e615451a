import type { KeyObject, X509Certificate } from 'node:crypto'
import type { Client } from '@setpoint/controller-runtime'
import { fingerprintOf, readHolding, validityOf } from './chain.ts'
import { KeyPair } from './key-pair.ts'
import { Refusal } from './refusal.ts'
import { signatureAlgorithmOf } from './signature.ts'

/** A CA that can sign. */
export interface Authority {
  readonly key: KeyObject
  readonly certificate: X509Certificate
  /** The certificates above that of the CA, up to the one to trust. */
  readonly parents: readonly X509Certificate[]
  readonly fingerprint: string
  /** When its certificate expires, in ms. */
  readonly notAfter: number
}

/** What it takes to read a CA. */
interface AuthorityContext {
  readonly client: Client
  readonly signal: AbortSignal
  readonly passphrase: string | undefined
  readonly now: number
}

/** Reads the CA of a KeyPair. @throws Refusal if it cannot sign now */
export async function readAuthority(
  keyPairName: string,
  { client, signal, passphrase, now }: AuthorityContext,
): Promise<Authority> {
  const subject = `key pair ${JSON.stringify(keyPairName)}`
  const keyPair = await client.getIfExists(KeyPair, keyPairName, { signal })
  if (keyPair === undefined) throw new Refusal('KeyPairNotFound', `${subject} does not exist`)
  const holding = readHolding(keyPair.spec, passphrase)
  if (holding === undefined)
    throw new Refusal('KeyUnreadable', `the private key of ${subject} is damaged, or has another passphrase`)
  const { leaf, key, parents } = holding
  if (leaf === undefined)
    throw new Refusal('NoCertificate', `${subject} has no certificate that belongs to its key`)
  if (!leaf.ca) throw new Refusal('NotACA', `the certificate of ${subject} is not that of a CA`)
  if (signatureAlgorithmOf(key) === undefined)
    throw new Refusal('UnsupportedKey', `the key of ${subject} is of an unsupported algorithm`)
  const { notBefore, notAfter } = validityOf(leaf)
  if (now < notBefore)
    throw new Refusal('NotYetValid', `the CA of ${subject} is valid from ${isoOf(notBefore)}`, notBefore)
  if (now >= notAfter) throw new Refusal('Expired', `the CA of ${subject} expired at ${isoOf(notAfter)}`)
  return { key, certificate: leaf, parents, fingerprint: fingerprintOf(leaf), notAfter }
}

/** Returns a time in RFC 3339. */
export function isoOf(ms: number): string {
  return new Date(ms).toISOString()
}
