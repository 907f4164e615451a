import { type KeyObject, sign } from 'node:crypto'

/** Which signatures keys make in certificates and revocation lists. */
export interface SignatureAlgorithm {
  /** Its object identifier. */
  readonly oid: string
  /** The hash that is signed; null if the algorithm has its own. */
  readonly hash: 'sha256' | 'sha384' | 'sha512' | null
  /** RSA's identifiers have a parameter of the ASN.1 type NULL, the others none. */
  readonly hasNull: boolean
}

const rsa: SignatureAlgorithm = { oid: '1.2.840.113549.1.1.11', hash: 'sha256', hasNull: true }
const ed25519: SignatureAlgorithm = { oid: '1.3.101.112', hash: null, hasNull: false }
const curves: Readonly<Record<string, SignatureAlgorithm>> = {
  prime256v1: { oid: '1.2.840.10045.4.3.2', hash: 'sha256', hasNull: false },
  secp384r1: { oid: '1.2.840.10045.4.3.3', hash: 'sha384', hasNull: false },
  secp521r1: { oid: '1.2.840.10045.4.3.4', hash: 'sha512', hasNull: false },
}

/** Returns the signature algorithm of a key, or undefined if certificates are not signed with such keys. */
export function signatureAlgorithmOf(key: KeyObject): SignatureAlgorithm | undefined {
  switch (key.asymmetricKeyType) {
    case 'rsa':
      return rsa
    case 'ed25519':
      return ed25519
    case 'ec':
      return curves[key.asymmetricKeyDetails?.namedCurve ?? '']
    default:
      return undefined
  }
}

/** Signs in the thread pool, since a signature of a large RSA key takes milliseconds. */
export function signWith(key: KeyObject, { hash }: SignatureAlgorithm, data: Uint8Array): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    sign(hash, data, key, (error, signature) => (error === null ? resolve(signature) : reject(error)))
  })
}
