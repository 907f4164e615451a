import type { X509Certificate } from 'node:crypto'
import {
  type Client,
  type Clock,
  type DeepReadonly,
  isOwnedBy,
  type RandomSource,
  setControllerReference,
} from '@setpoint/controller-runtime'
import { type Authority, readAuthority } from './authority.ts'
import { type CertificateObject, keyNameOf } from './certificate.ts'
import { type Holding, readHolding, validityOf, writeChain } from './chain.ts'
import { parseDuration } from './duration.ts'
import { type IssuerObject, isReady } from './issuer.ts'
import { KeyPair, type KeyPairObject } from './key-pair.ts'
import { generateKey, isOfKind, writeKey } from './private-key.ts'
import { Refusal } from './refusal.ts'
import { digestOf, requestOf } from './request.ts'

/** Recorded instead of a fingerprint for certificates that are signed with their own key. */
const selfSigned = 'self'

/** What it takes to issue a certificate. */
export interface IssueContext {
  readonly client: Client
  readonly clock: Pick<Clock, 'now'>
  readonly random: RandomSource
  readonly signal: AbortSignal
  readonly passphrase: string | undefined
  /** Where clients find the CRL of an issuer; undefined: certificates do not say. */
  readonly crlUrlOf: (issuer: string) => string | undefined
}

/** The stored certificate of a Certificate object. */
export interface Issued {
  readonly leaf: X509Certificate
  readonly issuer: string
  readonly notBefore: number
  readonly notAfter: number
  /** When it is to be renewed, in ms. */
  readonly renewal: number
  /** Whether it is what the object asks for now. */
  readonly isWanted: boolean
}

/** Why a certificate is issued. */
export type Cause = 'Missing' | 'SpecChanged' | 'IssuerChanged' | 'Renewal'

/** The KeyPair of a certificate, and what it holds. */
export interface Stored {
  readonly keyPair: KeyPairObject
  readonly holding: Holding
}

/** Reads the certificate's KeyPair. @throws Refusal if it belongs to another owner, or its key cannot be read */
export async function readStored(
  certificate: DeepReadonly<CertificateObject>,
  { client, signal, passphrase }: IssueContext,
): Promise<Stored | undefined> {
  const name = keyNameOf(certificate)
  const keyPair = await client.getIfExists(KeyPair, name, { signal })
  if (keyPair === undefined) return undefined
  const subject = `key pair ${JSON.stringify(name)}`
  // Also that of an earlier certificate of this name, until it is collected: a revoked key is not used again.
  if (!isOwnedBy(keyPair, certificate))
    throw new Refusal('KeyPairTaken', `${subject} belongs to something else`)
  const holding = readHolding(keyPair.spec, passphrase)
  if (holding === undefined) {
    const advice = 'delete it to get a new one'
    throw new Refusal(
      'KeyUnreadable',
      `the private key of ${subject} is damaged, or has another passphrase; ${advice}`,
    )
  }
  return { keyPair, holding }
}

/** Returns the certificate that a KeyPair holds. */
export function issuedOf(
  certificate: DeepReadonly<CertificateObject>,
  stored: Stored | undefined,
): Issued | undefined {
  const issued = stored?.keyPair.spec.issued
  const leaf = stored?.holding.leaf
  if (issued === undefined || leaf === undefined) return undefined
  const { notBefore, notAfter } = validityOf(leaf)
  const { renewBefore } = certificate.spec
  const beforeMs = renewBefore === undefined ? (notAfter - notBefore) / 3 : parseDuration(renewBefore)
  return {
    leaf,
    issuer: issued.issuer,
    notBefore,
    notAfter,
    renewal: notAfter - beforeMs,
    isWanted: issued.request === digestOf(requestOf(certificate)),
  }
}

/** Returns why a certificate has to be issued now, or undefined if the stored one is right. */
export function causeOf(
  certificate: DeepReadonly<CertificateObject>,
  stored: Stored | undefined,
  issuer: DeepReadonly<IssuerObject> | undefined,
  now: number,
): Cause | undefined {
  const issued = issuedOf(certificate, stored)
  if (issued === undefined) return 'Missing'
  if (!issued.isWanted) return 'SpecChanged'
  const authority = issuer !== undefined && isReady(issuer) ? authorityNameOf(issuer) : undefined
  if (authority !== undefined && stored?.keyPair.spec.issued?.authority !== authority) return 'IssuerChanged'
  return now >= issued.renewal && canExtend(certificate, issued, issuer, now) ? 'Renewal' : undefined
}

/**
 * Returns false if a new certificate would not be valid for longer, because the CA expires at the same time. It is
 * issued when the CA has been renewed.
 */
function canExtend(
  certificate: DeepReadonly<CertificateObject>,
  { notAfter }: Issued,
  issuer: DeepReadonly<IssuerObject> | undefined,
  now: number,
): boolean {
  const last =
    issuer?.status?.ca === undefined ? Number.POSITIVE_INFINITY : Date.parse(issuer.status.ca.notAfter)
  return Math.min(now + requestOf(certificate).durationMs, last) > notAfter
}

function authorityNameOf({ spec, status }: DeepReadonly<IssuerObject>): string | undefined {
  return spec.ca === undefined ? selfSigned : status?.ca?.fingerprint
}

/**
 * Issues a certificate and stores it with its key, in one write: a crash leaves both or neither. Keeps a key
 * of the wanted kind.
 * @throws Refusal if the issuer cannot sign
 */
export async function issue(
  certificate: DeepReadonly<CertificateObject>,
  stored: Stored | undefined,
  issuer: DeepReadonly<IssuerObject> | undefined,
  context: IssueContext,
): Promise<Stored> {
  const { client, clock, random, signal, passphrase, crlUrlOf } = context
  const request = requestOf(certificate)
  const ready = readyIssuer(request.issuer, issuer)
  const now = clock.now()
  const authority = await authorityOf(ready, context, now)
  const kept = stored !== undefined && isOfKind(stored.holding.key, request.key) ? stored : undefined
  const key = kept?.holding.key ?? (await generateKey(request.key, signal))
  // Certificates have whole seconds.
  const notBefore = Math.floor(now / 1000) * 1000
  // Only here, since the library takes a while to load.
  const { signCertificate } = await import('./x509.ts')
  const leaf = await signCertificate({
    ...request,
    // A leading byte of 1 keeps the number positive and its length fixed.
    serial: `01${random('serial', 16).toString('hex')}`,
    notBefore,
    notAfter: Math.min(notBefore + request.durationMs, authority?.notAfter ?? Number.POSITIVE_INFINITY),
    key,
    crlUrl: authority === undefined ? undefined : crlUrlOf(request.issuer),
    authority,
  })
  const chain = authority === undefined ? [leaf] : [leaf, authority.certificate, ...authority.parents]
  const spec = {
    privateKey: kept?.keyPair.spec.privateKey ?? writeKey(key, passphrase),
    certificate: writeChain(chain.length === 1 ? chain : chain.slice(0, -1)),
    ca: writeChain(chain.slice(-1)),
    issued: {
      request: digestOf(request),
      issuer: request.issuer,
      authority: authority?.fingerprint ?? selfSigned,
    },
  }
  const keyPair =
    stored === undefined
      ? await client.create(
          KeyPair,
          setControllerReference(certificate, { metadata: { name: keyNameOf(certificate) }, spec }),
          { signal },
        )
      : await client.update(KeyPair, { ...stored.keyPair, spec }, { signal })
  return { keyPair, holding: { key, leaf, parents: chain.slice(1) } }
}

function readyIssuer(
  name: string,
  issuer: DeepReadonly<IssuerObject> | undefined,
): DeepReadonly<IssuerObject> {
  const subject = `issuer ${JSON.stringify(name)}`
  if (issuer === undefined) throw new Refusal('IssuerNotFound', `${subject} does not exist`)
  if (!isReady(issuer)) throw new Refusal('IssuerNotReady', `${subject} is not ready`)
  return issuer
}

/** Returns the CA of an issuer; undefined if certificates are signed with their own keys. @throws Refusal */
async function authorityOf(
  { metadata, spec, status }: DeepReadonly<IssuerObject>,
  context: IssueContext,
  now: number,
): Promise<Authority | undefined> {
  if (spec.ca === undefined) return undefined
  const authority = await readAuthority(spec.ca.keyPairName, { ...context, now })
  // Otherwise the certificate would be issued again as soon as the issuer's status has the new CA.
  if (authority.fingerprint !== status?.ca?.fingerprint)
    throw new Refusal('IssuerNotReady', `issuer ${JSON.stringify(metadata.name)} is changing to another CA`)
  return authority
}
