import { X509Certificate } from 'node:crypto'

/** The certificates that may sign a client's certificate, directly or through others. Immutable. */
export class CertificateAuthorities {
  readonly #all: readonly X509Certificate[]

  /** @param pem one or more certificates. @throws Error if one cannot be read or the text has no certificate */
  constructor(pem: string) {
    const found = pem.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? []
    if (found.length === 0) throw new Error('the file has no certificate')
    this.#all = found.map(text => new X509Certificate(text))
  }

  has(certificate: X509Certificate): boolean {
    return this.#all.some(each => each.raw.equals(certificate.raw))
  }

  /**
   * Returns the certificates from the first one of a chain to an authority, or undefined if no authority has signed one
   * of them. Checks signatures only: TLS has checked everything else at the handshake.
   * @param chain each one signed by the next
   */
  pathOf(chain: readonly X509Certificate[]): readonly X509Certificate[] | undefined {
    for (const [at, certificate] of chain.entries()) {
      const path = chain.slice(0, at + 1)
      if (this.has(certificate)) return path
      const authority = this.#all.find(each => hasSigned(each, certificate))
      if (authority !== undefined) return [...path, authority]
      const next = chain[at + 1]
      if (next === undefined || !next.ca || !hasSigned(next, certificate)) return undefined
    }
    return undefined
  }
}

function hasSigned(issuer: X509Certificate, certificate: X509Certificate): boolean {
  return certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey)
}
