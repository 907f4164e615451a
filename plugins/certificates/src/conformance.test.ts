import { X509Certificate } from 'node:crypto'
import { getCondition } from '@setpoint/controller-runtime'
import { reconcilerConformance } from '@setpoint/controller-runtime/testing'
import { beforeAll, describe, test } from 'vitest'
import { superviseCertificates } from './certificate-reconciler.ts'
import { fingerprintOf } from './chain.ts'
import { Certificate, Issuer, KeyPair, RevocationList } from './index.ts'
import { superviseIssuers } from './issuer-reconciler.ts'
import { generateKey, writeKey } from './private-key.ts'
import { Revocations } from './revocations.ts'
import { signCertificate } from './x509.ts'

/** A CA that people have brought, valid at the time of the suite's clock. */
let ca: { readonly privateKey: string; readonly certificate: string }
beforeAll(async () => {
  const key = await generateKey({ algorithm: 'ECDSA', size: 256 })
  const certificate = await signCertificate({
    serial: '01',
    subject: 'Root',
    dnsNames: [],
    ipAddresses: [],
    uris: [],
    notBefore: Date.UTC(2020, 0, 1),
    notAfter: Date.UTC(2040, 0, 1),
    isCA: true,
    usages: ['cert sign', 'crl sign'],
    key,
    crlUrl: undefined,
    authority: undefined,
  })
  ca = { privateKey: writeKey(key, undefined), certificate: certificate.toString() }
})

/** Services of a process, which starts without memory. */
const services = () => ({
  passphrase: undefined,
  crlUrlOf: () => undefined,
  events: { record() {} },
  revocations: new Revocations(undefined),
})

/** Keys and signatures differ between lifecycles. */
function normalize(value: unknown, path: readonly string[]): unknown {
  const field = path.at(-1) ?? ''
  return ['privateKey', 'certificate', 'ca', 'crl'].includes(field) ? `<${field}>` : value
}

describe('the reconciler of certificates', () => {
  reconcilerConformance({
    model: Certificate,
    models: [Issuer, KeyPair, RevocationList],
    controller: controller => superviseCertificates(controller, services()),
    outside: () => undefined,
    async prepare({ client }) {
      await client.create(KeyPair, { metadata: { name: 'ca' }, spec: ca })
      const spec = { ca: { keyPairName: 'ca' } }
      const issuer = await client.create(Issuer, { metadata: { name: 'ca' }, spec })
      const time = new Date(0).toISOString()
      const ready = {
        type: 'Ready',
        status: 'True',
        lastTransitionTime: time,
        observedGeneration: 1,
      } as const
      const fingerprint = fingerprintOf(new X509Certificate(ca.certificate))
      const authority = { subject: 'CN=Root', notAfter: '2040-01-01T00:00:00.000Z', fingerprint }
      await client.patchStatus(Issuer, issuer, { conditions: [ready], ca: authority })
    },
    objects: () =>
      ['a', 'b', 'c'].map(name => ({
        metadata: { name },
        spec: { dnsNames: [`${name}.example.com`], issuerRef: { name: 'ca' } },
      })),
    changes: () => [
      { spec: { uris: ['spiffe://a'] } },
      { spec: { key: { algorithm: 'Ed25519' as const } } },
      { spec: { duration: '1000h' } },
    ],
    isConverged: ({ object: { metadata, status } }) => {
      const ready = getCondition(status?.conditions, 'Ready')
      return ready?.status === 'True' && ready.observedGeneration === metadata.generation
    },
    // The key pair is collected with the certificate, when every finalizer has gone; the suite compares their number.
    async isCleanedUp({ object: { status }, client }) {
      if (status?.serial === undefined) return true
      const { spec } = await client.get(RevocationList, 'ca')
      return spec.revoked?.some(({ serial }) => serial === status.serial) ?? false
    },
    world: async ({ client }) =>
      (await client.list(Certificate)).items.map(({ status }) =>
        (status?.conditions ?? []).map(({ type, status, reason }) => [type, status, reason]),
      ),
    // A certificate that was deleted before it was issued is on no list. `isCleanedUp` looks at the lists.
    normalize: (value, path) =>
      path[1]?.startsWith('revocationlists') && path.length === 3 ? undefined : normalize(value, path),
  }).register(test)
})

describe('the reconciler of issuers', () => {
  reconcilerConformance({
    model: Issuer,
    models: [KeyPair, RevocationList],
    controller: controller => superviseIssuers(controller, services()),
    outside: () => undefined,
    prepare: async ({ client }) =>
      void (await client.create(KeyPair, { metadata: { name: 'ca' }, spec: ca })),
    objects: () => ['a', 'b', 'c'].map(name => ({ metadata: { name }, spec: { ca: { keyPairName: 'ca' } } })),
    changes: () => [{ spec: { ca: { keyPairName: 'none' } } }, { spec: { ca: { keyPairName: 'ca' } } }],
    isConverged: ({ object: { metadata, status } }) =>
      getCondition(status?.conditions, 'Ready')?.observedGeneration === metadata.generation,
    isCleanedUp: async ({ object, client }) =>
      (await client.getIfExists(RevocationList, object.metadata.name)) === undefined,
    world: async ({ client }) =>
      (await client.list(Issuer)).items.map(({ status }) => [
        status?.ca,
        getCondition(status?.conditions, 'Ready')?.reason,
      ]),
    normalize,
  }).register(test)
})
