import { getCondition, until } from '@setpoint/controller-runtime'
import { expect, test } from 'vitest'
import { Certificate, type CertificateObject, Issuer, KeyPair } from './index.ts'
import { dayMs, hourMs, World } from './testing/world.ts'

const serialsOf = ({ status }: CertificateObject) => (status?.superseded ?? []).map(({ serial }) => serial)

test('a certificate is renewed at its renewal time, not before, with the same key', async () => {
  await using world = await World.start()
  await world.createCA()
  const first = await world.issue('web', { duration: '3h', renewBefore: '1h' })
  const before = await world.keyPair('web')
  await world.pass(1.5 * hourMs)
  await world.client.patch(Certificate, 'web', { metadata: { labels: { 'example.com/a': 'b' } } })
  await world.issue('other')
  expect((await world.keyPair('web')).chain).toEqual(before.chain)
  await world.pass(0.5 * hourMs)
  const second = await world.replaced(first)
  const after = await world.keyPair('web')
  expect(after.privateKey).toBe(before.privateKey)
  expect(after.uid).toBe(before.uid)
  expect(serialsOf(second)).toEqual([first.status?.serial])
  expect(Date.parse(second.status?.notAfter ?? '')).toBeGreaterThan(Date.parse(first.status?.notAfter ?? ''))
  await expect.poll(() => world.events('web')).toEqual(['Issued', 'Renewed'])
  // The replaced certificate expires, and is forgotten.
  await world.pass(2 * hourMs)
  const third = await world.replaced(second)
  expect(serialsOf(third)).toEqual([second.status?.serial])
})

test('a changed spec gets another certificate; the key stays unless another kind of key is wanted', async () => {
  await using world = await World.start()
  await world.createCA()
  const first = await world.issue('web')
  const { privateKey } = await world.keyPair('web')
  await world.client.patch(Certificate, 'web', { spec: { dnsNames: ['www.example.com'] } })
  const second = await world.replaced(first)
  const named = await world.keyPair('web')
  expect(named.chain[0]?.subjectAltName).toBe('DNS:www.example.com')
  expect(named.privateKey).toBe(privateKey)
  await world.client.patch(Certificate, 'web', { spec: { key: { algorithm: 'Ed25519' } } })
  await world.replaced(second)
  const rekeyed = await world.keyPair('web')
  expect(rekeyed.privateKey).not.toBe(privateKey)
  expect(rekeyed.chain[0]?.publicKey.asymmetricKeyType).toBe('ed25519')
})

test('renewBefore alone moves the renewal and issues nothing', async () => {
  await using world = await World.start()
  await world.createCA()
  const { status } = await world.issue('web', { duration: '30h' })
  await world.client.patch(Certificate, 'web', { spec: { renewBefore: '5h' } })
  const moved = await world.becomes(
    Certificate,
    'web',
    web => web?.status?.renewalTime !== status?.renewalTime,
  )
  expect(moved.status).toMatchObject({ serial: status?.serial, notAfter: status?.notAfter })
  expect(Date.parse(moved.status?.notAfter ?? '') - Date.parse(moved.status?.renewalTime ?? '')).toBe(
    5 * hourMs,
  )
})

test('another CA, and a renewed one, get every certificate issued again', async () => {
  await using world = await World.start()
  await world.createCA({ duration: '300h', renewBefore: '100h' })
  const [web, api] = [await world.issue('web'), await world.issue('api')]
  const old = await world.keyPair('root')
  await world.client.delete(KeyPair, 'root')
  const [newWeb] = [await world.replaced(web), await world.replaced(api)]
  const root = await world.keyPair('root')
  expect(root.privateKey).not.toBe(old.privateKey)
  for (const name of ['web', 'api']) {
    const [leaf, ca] = (await world.keyPair(name)).chain
    expect(ca?.fingerprint256).toBe(root.chain[0]?.fingerprint256)
    expect(ca !== undefined && leaf?.verify(ca.publicKey)).toBe(true)
  }
  await world.pass(200 * hourMs)
  await world.replaced(newWeb)
  const renewed = await world.keyPair('root')
  expect(renewed.privateKey).toBe(root.privateKey)
  expect((await world.keyPair('web')).chain[1]?.fingerprint256).toBe(renewed.chain[0]?.fingerprint256)
})

test('a certificate is not valid for longer than its CA, and not renewed in vain', async () => {
  await using world = await World.start()
  // A CA without a Certificate is not renewed.
  await world.createCA({ duration: '100h' })
  const { issued: _, ...spec } = (await world.client.get(KeyPair, 'root')).spec
  await world.client.create(KeyPair, { metadata: { name: 'brought' }, spec })
  await world.client.create(Issuer, { metadata: { name: 'b' }, spec: { ca: { keyPairName: 'brought' } } })
  const web = await world.issue('web', { issuerRef: { name: 'b' }, duration: '1000h', renewBefore: '900h' })
  const [, ca] = (await world.keyPair('web')).chain
  expect(web.status?.notAfter).toBe(new Date(ca?.validTo ?? '').toISOString())
  await world.pass(50 * hourMs)
  await world.client.patch(Certificate, 'web', { metadata: { labels: { 'example.com/a': 'b' } } })
  await world.issue('another', { issuerRef: { name: 'b' } })
  expect((await world.client.get(Certificate, 'web')).status).toEqual(web.status)
  await world.pass(50 * hourMs)
  const expired = await world.becomes(Certificate, 'web', until.condition('Ready', 'False'))
  expect(getCondition(expired.status?.conditions, 'Ready')?.reason).toBe('Expired')
  const issuer = await world.becomes(Issuer, 'b', until.condition('Ready', 'False'))
  expect(getCondition(issuer.status?.conditions, 'Ready')?.reason).toBe('Expired')
})

test('a damaged or foreign certificate in the key pair is replaced', async () => {
  await using world = await World.start()
  await world.createCA()
  const web = await world.issue('web')
  const { privateKey } = await world.keyPair('web')
  const { certificate } = (await world.client.get(KeyPair, 'root')).spec
  await world.client.patch(KeyPair, 'web', { spec: { certificate } })
  await world.replaced(web)
  const after = await world.keyPair('web')
  expect(after.privateKey).toBe(privateKey)
  expect(after.chain[0]?.subjectAltName).toBe('DNS:web.example.com')
})

test('certificates that expire soon are found in order, and the summary counts them', async () => {
  await using world = await World.start()
  await world.createCA()
  for (const [name, duration] of Object.entries({ c: '300h', a: '100h', b: '200h', d: '3000h' }))
    await world.issue(name, { duration })
  const soon = new Date(world.clock.now() + 10 * dayMs).toISOString()
  const { items } = await world.client.list(Certificate, {
    fieldSelector: `status.notAfter<${soon}`,
    sort: 'status.notAfter,asc',
  })
  expect(items.map(({ metadata }) => metadata.name)).toEqual(['a', 'b'])
  const url = `${await world.server.listen()}/apis/console.api.certificates.example.com/v1alpha1/summary`
  const summary = await (await fetch(`${url}?within=240h`)).json()
  expect(summary).toMatchObject({
    total: 5,
    ready: 5,
    expired: 0,
    expiring: { total: 2, next: [{ name: 'a' }, { name: 'b' }] },
  })
  expect((await fetch(`${url}?within=soon`)).status).toBe(400)
})
