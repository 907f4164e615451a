import { X509Certificate } from 'node:crypto'
import type { Socket } from 'node:net'
import { type DetailedPeerCertificate, TLSSocket } from 'node:tls'
import { type Clock, systemClock, type UserInfo } from '@setpoint/controller-runtime'
import { errorMessage } from '@setpoint/controller-runtime/api'
import { credentialIdKey, type Identity, systemGroups } from './access.ts'
import { CertificateAuthorities } from './certificate-authorities.ts'
import { Revocations } from './revocations.ts'

export const clientCertificateDefaults = Object.freeze({
  /** Certificates of a client's chain that are used. Real chains have two to four. */
  chainLength: 10,
})

/** A certificate that is not accepted. */
interface Refused {
  readonly problem: string
}

/** A certificate that TLS has verified at the handshake. */
interface Peer {
  readonly identity: Identity
  /** The certificate, and those that the client has sent with it. */
  readonly chain: readonly X509Certificate[]
  /** From the certificate to an authority; undefined if no present authority has signed it. */
  path: readonly X509Certificate[] | undefined
  /** The authorities that `path` is for. */
  authorities: CertificateAuthorities
  /** The first expiry in `path`, in milliseconds since the epoch. */
  expiresAt: number
}

/**
 * Authenticates callers by the certificates of their connections: the common name is the user, the organizations are
 * the groups, as in Kubernetes. TLS verifies a certificate at the handshake; sessions must not be resumed, because a
 * resumed one is not verified. Each request then checks the expiry, and that an authority is still accepted.
 */
export class ClientCertificates {
  readonly #clock: Clock
  readonly #revocations: Revocations
  readonly #peers = new WeakMap<Socket, Peer | Refused | 'none'>()
  #authorities: CertificateAuthorities

  /** @param ca PEM text. @throws Error if it has no readable certificate */
  constructor(ca: string, clock: Clock = systemClock) {
    this.#clock = clock
    this.#revocations = new Revocations(clock)
    this.#authorities = new CertificateAuthorities(ca)
  }

  /** Accepts other authorities. @throws Error if the PEM text has no readable certificate */
  use(ca: string): void {
    this.#authorities = new CertificateAuthorities(ca)
    this.#revocations.recheck()
  }

  /** Returns the caller, why its certificate is refused, or undefined if the connection has no client certificate. */
  find(socket: Socket): { readonly identity: Identity } | Refused | undefined {
    let peer = this.#peers.get(socket)
    if (peer === undefined) {
      peer = socket instanceof TLSSocket ? this.#read(socket) : 'none'
      this.#peers.set(socket, peer)
    }
    if (peer === 'none') return undefined
    if ('problem' in peer) return peer
    if (!this.#isSigned(peer)) return { problem: 'the authority of the client certificate is not accepted' }
    if (peer.expiresAt <= this.#clock.now()) return { problem: 'the client certificate has expired' }
    return peer
  }

  #read(socket: TLSSocket): Peer | Refused | 'none' {
    const presented = socket.getPeerCertificate(true)
    // Without a certificate it is an empty object.
    if (presented.raw === undefined) return 'none'
    if (!socket.authorized)
      // A code of OpenSSL, such as CERT_HAS_EXPIRED: a string, although Node's types say Error.
      return { problem: `the client certificate is not accepted: ${errorMessage(socket.authorizationError)}` }
    const user = userOf(presented)
    if (user === undefined)
      return { problem: 'the client certificate names no user: its subject needs one common name (CN)' }
    const chain = chainOf(presented).map(({ raw }) => new X509Certificate(raw))
    const authorities = this.#authorities
    const path = authorities.pathOf(chain)
    const expiresAt = firstExpiry(path ?? chain)
    const credential = this.#revocations.credential({ expiresAt, isValid: () => this.#isSigned(peer) })
    const identity = Object.freeze({ user, credential })
    const peer: Peer = { identity, chain, path, authorities, expiresAt }
    return peer
  }

  #isSigned(peer: Peer): boolean {
    const authorities = this.#authorities
    if (peer.authorities !== authorities) {
      peer.authorities = authorities
      const authority = peer.path?.at(-1)
      if (authority === undefined || !authorities.has(authority)) {
        peer.path = authorities.pathOf(peer.chain)
        peer.expiresAt = Math.min(peer.expiresAt, firstExpiry(peer.path ?? []))
      }
    }
    return peer.path !== undefined
  }
}

/** Returns the certificate, the one that follows it in the client's chain, and so on. */
function chainOf(presented: DetailedPeerCertificate): DetailedPeerCertificate[] {
  const chain: DetailedPeerCertificate[] = []
  let each: DetailedPeerCertificate | undefined = presented
  // A root is its own issuer.
  while (
    each !== undefined &&
    !chain.includes(each) &&
    chain.length < clientCertificateDefaults.chainLength
  ) {
    chain.push(each)
    each = each.issuerCertificate
  }
  return chain
}

function firstExpiry(certificates: readonly X509Certificate[]): number {
  return Math.min(...certificates.map(({ validTo }) => Date.parse(validTo)))
}

function userOf({ subject, fingerprint256 }: DetailedPeerCertificate): UserInfo | undefined {
  const [name = '', ...more] = textsOf(subject.CN)
  if (name === '' || more.length > 0) return undefined
  const credentialId = `X509SHA256=${fingerprint256.replaceAll(':', '').toLowerCase()}`
  return Object.freeze({
    name,
    groups: Object.freeze([...new Set([...textsOf(subject.O), systemGroups.authenticated])]),
    extra: Object.freeze({ [credentialIdKey]: Object.freeze([credentialId]) }),
  })
}

/** A field that a subject has several times is an array. */
function textsOf(field: string | readonly string[] | undefined): string[] {
  return field === undefined ? [] : [field].flat()
}
