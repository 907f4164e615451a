import { createHash, createPublicKey, type KeyObject, X509Certificate } from 'node:crypto'
import { AsnConvert, OctetString } from '@peculiar/asn1-schema'
import * as asn1 from '@peculiar/asn1-x509'
import type { Usage } from './certificate.ts'
import { type SignatureAlgorithm, signatureAlgorithmOf, signWith } from './signature.ts'

/**
 * Certificates and revocation lists of RFC 5280 in ASN.1. The only file that imports the library, and itself imported
 * when something is signed, because the library takes a tenth of a second to load.
 */

/** A CA, as far as signatures concern it. */
interface Signer {
  readonly key: KeyObject
  readonly certificate: X509Certificate
}

/** What a certificate says. Times are in ms, of whole seconds. */
export interface CertificateTemplate {
  /** Hexadecimal. */
  readonly serial: string
  /** The common name. */
  readonly subject: string
  readonly dnsNames: readonly string[]
  readonly ipAddresses: readonly string[]
  readonly uris: readonly string[]
  readonly notBefore: number
  readonly notAfter: number
  readonly isCA: boolean
  readonly usages: readonly Usage[]
  /** The key of the certificate; its public part is in it. */
  readonly key: KeyObject
  /** Where its revocation list is. */
  readonly crlUrl: string | undefined
  /** Undefined: it is signed with its own key. */
  readonly authority: Signer | undefined
}

/** What a revocation list says. */
interface RevocationTemplate {
  readonly revoked: readonly { readonly serial: string; readonly revokedAt: string }[]
  readonly number: number
  readonly thisUpdate: Date
  readonly nextUpdate: Date
  readonly authority: Signer
}

const keyUsages: Readonly<Partial<Record<Usage, asn1.KeyUsageFlags>>> = {
  'digital signature': asn1.KeyUsageFlags.digitalSignature,
  'content commitment': asn1.KeyUsageFlags.nonRepudiation,
  'key encipherment': asn1.KeyUsageFlags.keyEncipherment,
  'data encipherment': asn1.KeyUsageFlags.dataEncipherment,
  'key agreement': asn1.KeyUsageFlags.keyAgreement,
  'cert sign': asn1.KeyUsageFlags.keyCertSign,
  'crl sign': asn1.KeyUsageFlags.cRLSign,
}

const extendedUsages: Readonly<Partial<Record<Usage, string>>> = {
  'server auth': asn1.id_kp_serverAuth,
  'client auth': asn1.id_kp_clientAuth,
  'code signing': asn1.id_kp_codeSigning,
  'email protection': asn1.id_kp_emailProtection,
  timestamping: asn1.id_kp_timeStamping,
  'ocsp signing': asn1.id_kp_OCSPSigning,
}

const commonName = '2.5.4.3'

/** Signs a certificate. */
export async function signCertificate(template: CertificateTemplate): Promise<X509Certificate> {
  const { authority, key } = template
  const algorithm = algorithmOf(authority?.key ?? key)
  const subject = nameOf(template.subject)
  const body = new asn1.TBSCertificate({
    version: asn1.Version.v3,
    serialNumber: bufferOf(Buffer.from(template.serial, 'hex')),
    signature: identifierOf(algorithm),
    // The CA's name byte by byte, since some clients compare names that way.
    issuer: authority === undefined ? subject : parsed(authority.certificate).subject,
    validity: new asn1.Validity({
      notBefore: new Date(template.notBefore),
      notAfter: new Date(template.notAfter),
    }),
    subject,
    subjectPublicKeyInfo: AsnConvert.parse(publicKeyOf(key), asn1.SubjectPublicKeyInfo),
    extensions: new asn1.Extensions(extensionsOf(template)),
  })
  const signed = new asn1.Certificate({
    tbsCertificate: body,
    signatureAlgorithm: identifierOf(algorithm),
    signatureValue: bufferOf(
      await signWith(authority?.key ?? key, algorithm, new Uint8Array(AsnConvert.serialize(body))),
    ),
  })
  return new X509Certificate(Buffer.from(AsnConvert.serialize(signed)))
}

/** Signs a revocation list and returns it as PEM. */
export async function signRevocationList(template: RevocationTemplate): Promise<string> {
  const { revoked, number, thisUpdate, nextUpdate, authority } = template
  const algorithm = algorithmOf(authority.key)
  const issuer = parsed(authority.certificate)
  const identifier = AsnConvert.serialize(identifierOf(algorithm))
  const extensions = new asn1.Extensions([
    extension(asn1.id_ce_authorityKeyIdentifier, false, authorityKeyOf(issuer)),
    extension(asn1.id_ce_cRLNumber, false, new asn1.CRLNumber(number)),
  ])
  const body = encoded(tags.sequence, [
    encoded(tags.integer, [new Uint8Array([asn1.Version.v2])]),
    identifier,
    AsnConvert.serialize(issuer.subject),
    AsnConvert.serialize(new asn1.Time(thisUpdate)),
    AsnConvert.serialize(new asn1.Time(nextUpdate)),
    // An empty sequence is not allowed.
    ...(revoked.length > 0 ? [encoded(tags.sequence, revoked.map(entryOf))] : []),
    encoded(tags.extensions, [AsnConvert.serialize(extensions)]),
  ])
  const signature = await signWith(authority.key, algorithm, body)
  const list = encoded(tags.sequence, [
    body,
    identifier,
    encoded(tags.bitString, [new Uint8Array([0]), signature]),
  ])
  const base64 = list.toString('base64').replace(/.{64}/g, '$&\n').trimEnd()
  return `-----BEGIN X509 CRL-----\n${base64}\n-----END X509 CRL-----\n`
}

/** The tags of a revocation list. It is put together by hand, since the library takes 0.1 ms for each entry. */
const tags = Object.freeze({
  integer: 0x02,
  bitString: 0x03,
  utcTime: 0x17,
  generalizedTime: 0x18,
  sequence: 0x30,
  /** `[0] EXPLICIT`. */
  extensions: 0xa0,
})

/** Encodes an entry of a list: a serial number and a time. */
function entryOf({ serial, revokedAt }: RevocationTemplate['revoked'][number]): Buffer {
  const bytes = Buffer.from(serial.replace(/^(00)+(?=..)/, ''), 'hex')
  // A number with the highest bit set would be negative.
  const number = (bytes[0] ?? 0) < 0x80 ? [bytes] : [new Uint8Array([0]), bytes]
  const time = `${new Date(revokedAt).toISOString().slice(0, 19).replace(/[-:T]/g, '')}Z`
  // Years until 2049 have two digits (RFC 5280, 5.1.2.4).
  const isShort = time < '2050'
  return encoded(tags.sequence, [
    encoded(tags.integer, number),
    encoded(isShort ? tags.utcTime : tags.generalizedTime, [Buffer.from(isShort ? time.slice(2) : time)]),
  ])
}

/** Encodes a value in DER. */
function encoded(tag: number, parts: readonly (Uint8Array | ArrayBuffer)[]): Buffer {
  const content = parts.map(part => (part instanceof Uint8Array ? part : new Uint8Array(part)))
  const length = content.reduce((sum, { byteLength }) => sum + byteLength, 0)
  const digits = Buffer.from(length.toString(16).padStart(8, '0'), 'hex')
  const significant = digits.subarray(digits.findIndex(byte => byte > 0))
  const header = length < 0x80 ? [tag, length] : [tag, 0x80 + significant.byteLength, ...significant]
  return Buffer.concat([new Uint8Array(header), ...content])
}

function extensionsOf(template: CertificateTemplate): asn1.Extension[] {
  const { isCA, usages, key, crlUrl, authority } = template
  const own = AsnConvert.parse(publicKeyOf(key), asn1.SubjectPublicKeyInfo)
  const names = alternativeNames(template)
  const flags = usages.reduce((all, usage) => all | (keyUsages[usage] ?? 0), 0)
  const extended = usages.flatMap(usage => extendedUsages[usage] ?? [])
  return [
    extension(asn1.id_ce_basicConstraints, true, new asn1.BasicConstraints(isCA ? { cA: true } : {})),
    ...(flags > 0 ? [extension(asn1.id_ce_keyUsage, true, new asn1.KeyUsage(flags))] : []),
    ...(extended.length > 0
      ? [extension(asn1.id_ce_extKeyUsage, false, new asn1.ExtendedKeyUsage(extended))]
      : []),
    ...(names.length > 0
      ? [extension(asn1.id_ce_subjectAltName, false, new asn1.SubjectAlternativeName(names))]
      : []),
    extension(asn1.id_ce_subjectKeyIdentifier, false, new asn1.SubjectKeyIdentifier(keyIdOf(own))),
    ...(authority === undefined
      ? []
      : [extension(asn1.id_ce_authorityKeyIdentifier, false, authorityKeyOf(parsed(authority.certificate)))]),
    ...(crlUrl === undefined
      ? []
      : [extension(asn1.id_ce_cRLDistributionPoints, false, distributionPointsOf(crlUrl))]),
  ]
}

function alternativeNames({ dnsNames, ipAddresses, uris }: CertificateTemplate): asn1.GeneralName[] {
  return [
    ...dnsNames.map(dNSName => new asn1.GeneralName({ dNSName })),
    ...ipAddresses.map(iPAddress => new asn1.GeneralName({ iPAddress })),
    ...uris.map(uniformResourceIdentifier => new asn1.GeneralName({ uniformResourceIdentifier })),
  ]
}

function distributionPointsOf(uniformResourceIdentifier: string): asn1.CRLDistributionPoints {
  const fullName = [new asn1.GeneralName({ uniformResourceIdentifier })]
  const distributionPoint = new asn1.DistributionPointName({ fullName })
  return new asn1.CRLDistributionPoints([new asn1.DistributionPoint({ distributionPoint })])
}

/** Returns how certificates and lists name the key of their CA: as its certificate does, or by a hash. */
function authorityKeyOf({ extensions = [], subjectPublicKeyInfo }: asn1.TBSCertificate) {
  const own = extensions.find(({ extnID }) => extnID === asn1.id_ce_subjectKeyIdentifier)
  const id =
    own === undefined
      ? keyIdOf(subjectPublicKeyInfo)
      : AsnConvert.parse(own.extnValue.buffer, asn1.SubjectKeyIdentifier).buffer
  return new asn1.AuthorityKeyIdentifier({ keyIdentifier: new asn1.KeyIdentifier(id) })
}

/** The SHA-1 of a public key, which is only a name (RFC 5280, 4.2.1.2). */
function keyIdOf({ subjectPublicKey }: asn1.SubjectPublicKeyInfo): ArrayBuffer {
  return bufferOf(createHash('sha1').update(new Uint8Array(subjectPublicKey)).digest())
}

function extension(extnID: string, critical: boolean, value: object): asn1.Extension {
  return new asn1.Extension({ extnID, critical, extnValue: new OctetString(AsnConvert.serialize(value)) })
}

function nameOf(utf8String: string): asn1.Name {
  const value = new asn1.AttributeValue({ utf8String })
  const attribute = new asn1.AttributeTypeAndValue({ type: commonName, value })
  return new asn1.Name([new asn1.RelativeDistinguishedName([attribute])])
}

function identifierOf({ oid, hasNull }: SignatureAlgorithm): asn1.AlgorithmIdentifier {
  return new asn1.AlgorithmIdentifier({ algorithm: oid, ...(hasNull && { parameters: null }) })
}

/** @throws TypeError for a key that does not sign certificates, which is found out before */
function algorithmOf(key: KeyObject): SignatureAlgorithm {
  const algorithm = signatureAlgorithmOf(key)
  if (algorithm === undefined) throw new TypeError(`keys of type ${key.asymmetricKeyType} do not sign`)
  return algorithm
}

function parsed(certificate: X509Certificate): asn1.TBSCertificate {
  return AsnConvert.parse(certificate.raw, asn1.Certificate).tbsCertificate
}

function publicKeyOf(key: KeyObject): Buffer {
  return createPublicKey(key).export({ type: 'spki', format: 'der' })
}

/** Copies bytes into a buffer of their own, as the library wants them. */
function bufferOf(bytes: Uint8Array): ArrayBuffer {
  return new Uint8Array(bytes).buffer
}
