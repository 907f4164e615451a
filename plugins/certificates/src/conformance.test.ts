import { type Client, getCondition, isConditionTrue } from '@setpoint/controller-runtime'
import { reconcilerConformance } from '@setpoint/controller-runtime/testing'
import { beforeAll, describe, test } from 'vitest'
import certificates, { Certificate, Issuer, KeyPair, RevocationList } from './index.ts'
import { generateKey, writeKey } from './private-key.ts'
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

const issuerIsReady = async (client: Client) => {
  const { status } = await client.get(Issuer, 'ca')
  return isConditionTrue(status?.conditions, 'Ready')
}

/** Keys, signatures and what is computed from the time differ in each lifecycle, and so does the number of replacements. */
function normalize(value: unknown, path: readonly string[]): unknown {
  const field = path.at(-1) ?? ''
  if (field === 'revoked' && Array.isArray(value)) return value.length > 0
  return ['privateKey', 'certificate', 'ca', 'crl'].includes(field) ? `<${field}>` : value
}

describe('the certificate reconciler', () => {
  reconcilerConformance({
    model: Certificate,
    plugin: () => certificates,
    outside: () => undefined,
    prepare: async ({ client }) => {
      await client.create(KeyPair, { metadata: { name: 'ca' }, spec: ca })
      await client.create(Issuer, { metadata: { name: 'ca' }, spec: { ca: { keyPairName: 'ca' } } })
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
    isConverged: async ({ object: { metadata, status }, client }) => {
      const ready = getCondition(status?.conditions, 'Ready')
      const isReady = ready?.status === 'True' && ready.observedGeneration === metadata.generation
      return isReady && (await issuerIsReady(client))
    },
    isCleanedUp: async ({ object: { metadata, status }, client }) => {
      const list = await client.getIfExists(RevocationList, 'ca')
      const isRevoked = list?.spec.revoked.some(({ serial }) => serial === status?.serial) ?? false
      return (
        (status?.serial === undefined || isRevoked) && !(await client.getIfExists(KeyPair, metadata.name))
      )
    },
    world: async ({ client }) =>
      (await client.list(Certificate)).items.map(({ status }) =>
        (status?.conditions ?? []).map(({ type, status, reason }) => [type, status, reason]),
      ),
    normalize,
  }).register(test.concurrent)
})
