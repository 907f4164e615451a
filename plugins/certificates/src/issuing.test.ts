import { createPublicKey, X509Certificate } from 'node:crypto'
import { getCondition, isOwnedBy, until } from '@setpoint/controller-runtime'
import { expect, test } from 'vitest'
import { Certificate, type CertificateObject, Issuer, KeyPair } from './index.ts'
import { generateKey, writeKey } from './private-key.ts'
import { dayMs, World } from './testing/world.ts'

const reasonsOf = ({ status }: CertificateObject) =>
  ['Ready', 'Issuing'].map(type => {
    const condition = getCondition(status?.conditions, type)
    return `${type} ${condition?.status} ${condition?.reason}`
  })

test('a certificate of a CA has its names, its times, its chain and its own key', async () => {
  await using world = await World.start()
  await world.createCA()
  const names = {
    commonName: 'web',
    dnsNames: ['web.example.com', '*.web.example.com'],
    ipAddresses: ['127.0.0.1', '2001:db8::1'],
    uris: ['spiffe://example.com/web'],
  }
  const certificate = await world.issue('web', { ...names, duration: '720h' })
  const { chain, privateKey } = await world.keyPair('web')
  const [leaf, root] = chain
  if (leaf === undefined || root === undefined || chain.length !== 2) throw new Error('not a chain of two')
  expect(leaf.subject).toBe('CN=web')
  expect(leaf.issuer).toBe('CN=Root')
  expect(leaf.subjectAltName).toBe(
    'DNS:web.example.com, DNS:*.web.example.com, IP Address:127.0.0.1, IP Address:2001:DB8:0:0:0:0:0:1, URI:spiffe://example.com/web',
  )
  expect(leaf.checkHost('any.web.example.com')).toBe('*.web.example.com')
  expect(leaf.checkIP('127.0.0.1')).toBe('127.0.0.1')
  expect(leaf.ca).toBe(false)
  expect(root.ca).toBe(true)
  expect(leaf.verify(root.publicKey) && leaf.checkIssued(root)).toBe(true)
  expect(root.verify(root.publicKey)).toBe(true)
  expect(createPublicKey(privateKey).equals(leaf.publicKey)).toBe(true)
  expect(Date.parse(leaf.validTo) - Date.parse(leaf.validFrom)).toBe(30 * dayMs)
  expect(certificate.status).toMatchObject({
    serial: leaf.serialNumber.toLowerCase().padStart(34, '0'),
    issuer: 'ca',
    notAfter: new Date(leaf.validTo).toISOString(),
    renewalTime: new Date(Date.parse(leaf.validTo) - 10 * dayMs).toISOString(),
    fingerprint: leaf.fingerprint256.replaceAll(':', '').toLowerCase(),
  })
  expect(reasonsOf(certificate)).toEqual(['Ready True Issued', 'Issuing False UpToDate'])
  expect(isOwnedBy(await world.client.get(KeyPair, 'web'), certificate)).toBe(true)
})

test.each([
  ['RSA', 2048, 'rsa'],
  ['ECDSA', 256, 'ec'],
  ['ECDSA', 384, 'ec'],
  ['ECDSA', 521, 'ec'],
  ['Ed25519', undefined, 'ed25519'],
] as const)('a CA with a key of %s %s signs', async (algorithm, size, type) => {
  await using world = await World.start()
  await world.createCA({ key: { algorithm, ...(size && { size }) } })
  await world.issue('web', { key: { algorithm, ...(size && { size }) } })
  const [leaf, root] = (await world.keyPair('web')).chain
  if (leaf === undefined || root === undefined) throw new Error('not a chain')
  expect(leaf.verify(root.publicKey)).toBe(true)
  expect(leaf.publicKey.asymmetricKeyType).toBe(type)
  const { modulusLength, namedCurve } = leaf.publicKey.asymmetricKeyDetails ?? {}
  expect(modulusLength ?? Number(namedCurve?.match(/\d{3}/)?.[0] ?? 0)).toBe(size ?? 0)
})

test('an intermediate CA signs, and the chain leads to the root', async () => {
  await using world = await World.start()
  await world.createCA()
  await world.issue('middle', { isCA: true, commonName: 'Middle', dnsNames: [] })
  const spec = { ca: { keyPairName: 'middle' } }
  await world.client.create(Issuer, { metadata: { name: 'middle' }, spec })
  await world.issue('web', { issuerRef: { name: 'middle' } })
  const { certificate, ca } = (await world.client.get(KeyPair, 'web')).spec
  expect(certificate?.match(/BEGIN CERTIFICATE/g)).toHaveLength(2)
  expect(new X509Certificate(ca ?? '').subject).toBe('CN=Root')
  const [leaf, middle, root] = (await world.keyPair('web')).chain
  if (middle === undefined || root === undefined) throw new Error('not a chain of three')
  expect(leaf?.checkIssued(middle) && leaf.verify(middle.publicKey)).toBe(true)
  expect(middle.checkIssued(root) && middle.verify(root.publicKey)).toBe(true)
})

test('a self-signed certificate without a common name has an issuer nevertheless', async () => {
  await using world = await World.start()
  await world.client.create(Issuer, { metadata: { name: 'selfsigned' }, spec: { selfSigned: {} } })
  await world.issue('web', { issuerRef: { name: 'selfsigned' } })
  const [leaf] = (await world.keyPair('web')).chain
  expect(leaf?.issuer).toBe('CN=web.example.com')
  expect(leaf?.verify(leaf.publicKey)).toBe(true)
})

test('a certificate waits for its issuer and for the CA, and says for what', async () => {
  await using world = await World.start()
  const { client } = world
  const spec = { dnsNames: ['web.example.com'], issuerRef: { name: 'ca' } }
  await client.create(Certificate, { metadata: { name: 'web' }, spec })
  const waits = (reason: string) =>
    world
      .becomes(Certificate, 'web', until.condition('Issuing', 'True'))
      .then(() =>
        world.becomes(
          Certificate,
          'web',
          web => getCondition(web?.status?.conditions, 'Issuing')?.reason === reason,
        ),
      )
  expect(reasonsOf(await waits('IssuerNotFound'))).toEqual([
    'Ready False IssuerNotFound',
    'Issuing True IssuerNotFound',
  ])
  await client.create(Issuer, { metadata: { name: 'ca' }, spec: { ca: { keyPairName: 'root' } } })
  await waits('IssuerNotReady')
  const issuer = await world.becomes(Issuer, 'ca', until.condition('Ready', 'False'))
  expect(getCondition(issuer.status?.conditions, 'Ready')).toMatchObject({ reason: 'KeyPairNotFound' })
  expect(await client.getIfExists(KeyPair, 'web')).toBeUndefined()
  await client.create(Issuer, { metadata: { name: 'selfsigned' }, spec: { selfSigned: {} } })
  const root = { isCA: true, commonName: 'Root', issuerRef: { name: 'selfsigned' } }
  await client.create(Certificate, { metadata: { name: 'root' }, spec: root })
  await world.becomes(Certificate, 'web', until.condition('Ready'))
})

test('a key pair of another owner is not overwritten', async () => {
  await using world = await World.start()
  await world.createCA()
  await world.issue('web')
  const before = await world.keyPair('web')
  const spec = { dnsNames: ['other.example.com'], issuerRef: { name: 'ca' }, keyRef: { name: 'web' } }
  await world.client.create(Certificate, { metadata: { name: 'other' }, spec })
  const other = await world.becomes(Certificate, 'other', until.condition('Issuing', 'True'))
  expect(reasonsOf(other)).toEqual(['Ready False KeyPairTaken', 'Issuing True KeyPairTaken'])
  expect(await world.keyPair('web')).toEqual(before)
  await world.client.delete(Certificate, 'web')
  await world.becomes(Certificate, 'other', until.condition('Ready'))
})

test('with a passphrase keys are encrypted, and other passphrases are told apart from damage', async () => {
  await using world = await World.start({ keyPassphrase: 'correct horse battery' })
  await world.createCA({ key: { algorithm: 'RSA' } })
  await world.issue('web')
  const { privateKey } = await world.keyPair('web')
  expect(privateKey).toMatch(/^-----BEGIN ENCRYPTED PRIVATE KEY-----/)
  const foreign = writeKey(await generateKey({ algorithm: 'ECDSA', size: 256 }), 'another passphrase')
  await world.client.patch(KeyPair, 'web', { spec: { privateKey: foreign } })
  const web = await world.becomes(Certificate, 'web', until.condition('Issuing', 'True'))
  expect(reasonsOf(web)).toEqual(['Ready False KeyUnreadable', 'Issuing True KeyUnreadable'])
  await world.client.delete(KeyPair, 'web')
  await world.becomes(Certificate, 'web', until.condition('Ready'))
})

test.each([
  ['NoCertificate', { certificate: undefined }],
  ['KeyUnreadable', { privateKey: '-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n' }],
] as const)('an issuer whose key pair is of no use is not ready: %s', async (reason, change) => {
  await using world = await World.start()
  await world.createCA()
  const { spec } = await world.client.get(KeyPair, 'root')
  const { issued: _, ...brought } = { ...spec, ...change }
  await world.client.create(KeyPair, { metadata: { name: 'brought' }, spec: brought })
  await world.client.create(Issuer, { metadata: { name: 'b' }, spec: { ca: { keyPairName: 'brought' } } })
  const issuer = await world.becomes(Issuer, 'b', until.condition('Ready', 'False'))
  expect(getCondition(issuer.status?.conditions, 'Ready')?.reason).toBe(reason)
})

test('an issuer with a certificate that is no CA is not ready', async () => {
  await using world = await World.start()
  await world.createCA()
  await world.issue('web')
  await world.client.create(Issuer, { metadata: { name: 'b' }, spec: { ca: { keyPairName: 'web' } } })
  const issuer = await world.becomes(Issuer, 'b', until.condition('Ready', 'False'))
  expect(getCondition(issuer.status?.conditions, 'Ready')?.reason).toBe('NotACA')
})

test('with a public URL, certificates of a CA name the address of their revocation list', async () => {
  await using world = await World.start({ publicUrl: 'https://pki.example.com/' })
  await world.createCA()
  await world.issue('web')
  const [leaf, root] = (await world.keyPair('web')).chain
  const url = 'https://pki.example.com/apis/api.certificates.example.com/v1alpha1/issuers/ca/crl'
  expect(leaf?.raw.includes(url)).toBe(true)
  expect(root?.raw.includes('https://')).toBe(false)
})
