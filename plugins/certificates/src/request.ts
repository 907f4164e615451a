import { createHash } from 'node:crypto'
import type { DeepReadonly } from '@setpoint/controller-runtime'
import { type CertificateObject, certificateDefaults, type Usage } from './certificate.ts'
import { parseDuration } from './duration.ts'
import type { KeyRequest } from './private-key.ts'

/** What a Certificate asks for, with every default filled in. */
interface CertificateRequest {
  readonly issuer: string
  readonly subject: string
  readonly dnsNames: readonly string[]
  readonly ipAddresses: readonly string[]
  readonly uris: readonly string[]
  readonly durationMs: number
  readonly key: KeyRequest
  readonly isCA: boolean
  readonly usages: readonly Usage[]
}

const sizes = { RSA: 2048, ECDSA: 256, Ed25519: undefined } as const

/** Longest common name, in characters (RFC 5280, upper bound). */
const subjectLength = 64

export function requestOf({ spec }: DeepReadonly<CertificateObject>): CertificateRequest {
  const { dnsNames = [], ipAddresses = [], uris = [], isCA = false } = spec
  const algorithm = spec.key?.algorithm ?? certificateDefaults.algorithm
  const size = spec.key?.size ?? sizes[algorithm]
  return {
    issuer: spec.issuerRef.name,
    // By convention the first name. Without a subject, a self-signed certificate would have no issuer.
    subject: spec.commonName ?? (dnsNames[0] ?? ipAddresses[0] ?? uris[0] ?? '').slice(0, subjectLength),
    dnsNames,
    ipAddresses,
    uris,
    durationMs: parseDuration(spec.duration ?? certificateDefaults.duration),
    key: { algorithm, size },
    isCA,
    usages: spec.usages ?? defaultUsages(isCA, algorithm === 'RSA'),
  }
}

function defaultUsages(isCA: boolean, isRSA: boolean): readonly Usage[] {
  if (isCA) return ['cert sign', 'crl sign']
  // Only RSA has the key exchange of TLS 1.2 that enciphers a key.
  return [
    'digital signature',
    ...(isRSA ? (['key encipherment'] as const) : []),
    'server auth',
    'client auth',
  ]
}

/** Returns a digest that changes with every part of a request. */
export function digestOf(request: CertificateRequest): string {
  return createHash('sha256').update(JSON.stringify(request)).digest('hex')
}
