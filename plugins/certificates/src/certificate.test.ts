import type { NewObjectOf } from '@setpoint/controller-runtime'
import { startTestServer, type TestServer } from '@setpoint/controller-runtime/testing'
import { afterAll, beforeAll, expect, test } from 'vitest'
import certificates, { Certificate, type CertificateObject, Issuer } from './index.ts'

let server: TestServer
beforeAll(async () => {
  server = await startTestServer({ plugins: [certificates] })
})
afterAll(() => server.close())

type Spec = NewObjectOf<CertificateObject>['spec']
const issuerRef = { name: 'ca' }
const create = (spec: Omit<Spec, 'issuerRef'>) =>
  server.client.create(Certificate, { metadata: { name: 'a' }, spec: { issuerRef, ...spec } })

test('defaults are filled in', async () => {
  expect((await create({ commonName: 'a' })).spec).toEqual({
    issuerRef,
    commonName: 'a',
    duration: '2160h',
    key: { algorithm: 'ECDSA' },
    isCA: false,
    keyRef: { name: 'a' },
  })
})

test.each<[string, string, Omit<Spec, 'issuerRef'>]>([
  ['spec', 'needs a commonName, dnsNames, ipAddresses or uris', {}],
  ['spec', 'needs a commonName, dnsNames, ipAddresses or uris', { dnsNames: [], uris: [] }],
  ['spec.commonName', 'a CA needs a commonName', { dnsNames: ['a'], isCA: true }],
  ['spec.duration', 'must be at least a minute', { commonName: 'a', duration: '59s' }],
  ['spec.duration', 'pattern', { commonName: 'a', duration: '90 days' }],
  [
    'spec.renewBefore',
    'must be shorter than the duration',
    { commonName: 'a', duration: '1h', renewBefore: '60m' },
  ],
  [
    'spec.key.size',
    'RSA keys have 2048, 3072 or 4096 bits',
    { commonName: 'a', key: { algorithm: 'RSA', size: 256 } },
  ],
  ['spec.key.size', 'ECDSA keys have 256, 384 or 521 bits', { commonName: 'a', key: { size: 2048 } }],
  [
    'spec.key.size',
    'Ed25519 keys have no size',
    { commonName: 'a', key: { algorithm: 'Ed25519', size: 256 } },
  ],
  ['spec.dnsNames[1]', 'must be a host name in lower case', { dnsNames: ['a', 'A.example.com'] }],
  ['spec.dnsNames[0]', 'must be a host name in lower case', { dnsNames: ['a..b'] }],
  ['spec.dnsNames[0]', 'only the whole first label may be *', { dnsNames: ['a*.example.com'] }],
  ['spec.dnsNames[0]', 'only the whole first label may be *', { dnsNames: ['a.*.com'] }],
  ['spec.ipAddresses[0]', 'must be an IPv4 or IPv6 address', { ipAddresses: ['1.2.3'] }],
  ['spec.ipAddresses[0]', 'must be an IPv4 or IPv6 address', { ipAddresses: ['fe80::1%eth0'] }],
  ['spec.uris[0]', 'must be an absolute URI in ASCII', { uris: ['/path'] }],
])('an invalid certificate is refused: %s %s', async (field, message, spec) => {
  await expect(create(spec)).rejects.toMatchObject({
    reason: 'Invalid',
    details: {
      causes: expect.arrayContaining([
        expect.objectContaining({ field, message: expect.stringContaining(message) }),
      ]),
    },
  })
})

test('the key pair of a certificate cannot be changed', async () => {
  const { client } = server
  await client.create(Certificate, { metadata: { name: 'fixed' }, spec: { commonName: 'a', issuerRef } })
  await expect(client.patch(Certificate, 'fixed', { spec: { keyRef: { name: 'b' } } })).rejects.toMatchObject(
    {
      details: { causes: [{ field: 'spec.keyRef.name', message: expect.stringContaining('is immutable') }] },
    },
  )
})

test.each([{}, { selfSigned: {}, ca: { keyPairName: 'a' } }])(
  'an issuer is of exactly one sort',
  async spec => {
    const created = server.client.create(Issuer, { metadata: { name: 'a' }, spec })
    await expect(created).rejects.toMatchObject({
      details: { causes: [{ message: expect.stringContaining('needs either selfSigned or ca') }] },
    })
  },
)

test('certificates are found by any of their names', async () => {
  const spec = { issuerRef, dnsNames: ['a.example.com'], uris: ['spiffe://x/y'], ipAddresses: ['::1'] }
  await server.client.create(Certificate, { metadata: { name: 'named' }, spec })
  for (const name of ['a.example.com', 'spiffe://x/y', '::1']) {
    const { items } = await server.client.list(Certificate, { fieldSelector: `spec.names=${name}` })
    expect(items.map(({ metadata }) => metadata.name)).toEqual(['named'])
  }
})
