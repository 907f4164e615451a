import { createPrivateKey, X509Certificate } from 'node:crypto'
import { type Api, type ApiObject, Collection } from '../support/api.ts'
import { arrayOf, type Fields, fieldsOf, textOf } from '../support/json.ts'
import type { Random } from './random.ts'

/** A self-signed root, and an issuer of its own. */
export const issuers = `
apiVersion: cert-manager.io/v1
kind: ClusterIssuer
metadata: { name: self-signed }
spec: { selfSigned: {} }
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: { name: root }
spec:
  isCA: true
  commonName: example root
  secretName: root
  privateKey: { algorithm: ECDSA, size: 256 }
  issuerRef: { kind: ClusterIssuer, name: self-signed }
---
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: { name: example }
spec: { ca: { secretName: root } }
`

/** Certificates of cert-manager, which are renewed every ten seconds, and change all the time. */
export class Certificates {
  readonly #api: Api
  readonly #random: Random
  readonly #names: number
  readonly #certificates: Collection

  constructor(api: Api, random: Random, names: number) {
    this.#api = api
    this.#random = random
    this.#names = names
    this.#certificates = this.#collection('Certificate', 'certificates')
  }

  /** Creates, changes or deletes one. Returns the status of the response. */
  async change(): Promise<number> {
    const random = this.#random
    const name = `web-${random.below(this.#names)}`
    const certificates = this.#certificates
    const dnsNames = [`${name}-${random.below(1_000)}.example.com`]
    const spec = {
      ...{ secretName: name, dnsNames, duration: '60s', renewBefore: '50s' },
      privateKey: { algorithm: 'ECDSA', size: 256 },
      issuerRef: { name: 'example' },
    }
    const { status } = await random.pick([
      () => this.#api.post(certificates.path, certificates.body(name, spec)),
      () => this.#api.mergePatch(certificates.at(name), { spec: { dnsNames } }),
      () => this.#api.delete(certificates.at(name)),
    ])()
    return status
  }

  /** Deletes all but the root. */
  async deleteAll(): Promise<{ readonly status: number }> {
    return this.#api.delete(`${this.#certificates.path}?fieldSelector=metadata.name!=root`)
  }

  /** Returns the number of certificates that have been issued, those of deleted objects not included. */
  async issued(): Promise<number> {
    const { items } = await this.#certificates.list()
    return items.reduce((sum, { status }) => sum + Number(status.revision ?? 0), 0)
  }

  /** Returns what cert-manager has not done yet, and what is left of deleted certificates. */
  async problems(): Promise<string[]> {
    const lists = await Promise.all([
      this.#certificates.list(),
      this.#collection('CertificateRequest', 'certificaterequests').list(),
      new Collection(this.#api, 'v1', 'Secret', 'secrets', 'default').list(),
    ])
    const [certificates, requests, secrets] = lists.map(({ items }) => items)
    if (certificates === undefined || requests === undefined || secrets === undefined) return []
    const uids = new Set(certificates.map(({ metadata }) => metadata.uid))
    const contents = new Map(secrets.map(({ metadata, raw }) => [metadata.name, fieldsOf(raw.data ?? {})]))
    const root = pemOf(contents.get('root'), 'tls.crt')
    const left = [...requests, ...secrets].filter(({ raw }) => !ownersOf(raw).some(uid => uids.has(uid)))
    return [
      ...certificates.flatMap(certificate => problemsOf(certificate, contents, root)),
      ...left.map(({ kind, metadata }) => `the ${kind} ${metadata.name} is left`),
      ...[...certificates, ...requests]
        .filter(({ metadata }) => metadata.deletionTimestamp !== undefined)
        .map(({ kind, metadata }) => `the ${kind} ${metadata.name} is still being deleted`),
    ]
  }

  #collection(kind: string, plural: string): Collection {
    return new Collection(this.#api, 'cert-manager.io/v1', kind, plural, 'default')
  }
}

function problemsOf(
  { metadata: { name, generation }, spec, status }: ApiObject,
  contents: ReadonlyMap<string, Fields>,
  rootPem: string | undefined,
): string[] {
  const ready = arrayOf(status.conditions ?? [])
    .map(fieldsOf)
    .find(({ type }) => type === 'Ready')
  if (ready?.status !== 'True' || ready.observedGeneration !== generation)
    return [`${name} is not ready: ${String(ready?.message)}`]
  const secret = contents.get(textOf(spec.secretName))
  const [pem, key] = [pemOf(secret, 'tls.crt'), pemOf(secret, 'tls.key')]
  if (pem === undefined || key === undefined || rootPem === undefined) return [`${name} has no Secret`]
  const certificate = new X509Certificate(pem)
  if (!certificate.verify(new X509Certificate(rootPem).publicKey)) return [`${name} is not of the issuer`]
  if (!certificate.checkPrivateKey(createPrivateKey(key))) return [`${name} has another key`]
  if (new Date(certificate.validTo).getTime() < Date.now()) return [`${name} has expired`]
  const names = arrayOf(spec.dnsNames ?? []).map(dns => `DNS:${textOf(dns)}`)
  return (certificate.subjectAltName ?? '') === names.join(', ') ? [] : [`${name} has other names`]
}

function ownersOf(raw: Fields): string[] {
  return arrayOf(fieldsOf(raw.metadata).ownerReferences ?? []).map(owner => textOf(fieldsOf(owner).uid))
}

function pemOf(data: Fields | undefined, key: string): string | undefined {
  const text = data?.[key]
  return text === undefined ? undefined : Buffer.from(textOf(text), 'base64').toString()
}
