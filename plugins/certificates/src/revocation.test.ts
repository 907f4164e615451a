import { getCondition, until } from '@setpoint/controller-runtime'
import { expect, test } from 'vitest'
import { certificateDefaults } from './certificate.ts'
import { Certificate, Issuer, KeyPair, RevocationList } from './index.ts'
import { revocationDefaults } from './revocation-list.ts'
import { dayMs, hourMs, World } from './testing/world.ts'

const crl = async (world: World) => (await world.client.get(RevocationList, 'ca')).spec.crl

test('a deleted certificate is on the list before it disappears, and its key pair goes with it', async () => {
  await using world = await World.start()
  await world.createCA()
  const web = await world.issue('web')
  const before = await crl(world)
  await world.client.delete(Certificate, 'web')
  await world.gone(Certificate, 'web')
  // Nothing is polled here: the list was written first.
  expect(await world.revoked()).toEqual([web.status?.serial])
  const after = await crl(world)
  expect(after?.number).toBeGreaterThan(before?.number ?? 0)
  expect(after?.pem).not.toBe(before?.pem)
  await world.gone(KeyPair, 'web')
})

test('certificates that were replaced and have not expired are revoked too', async () => {
  await using world = await World.start()
  await world.createCA()
  const first = await world.issue('web', { duration: '3h', renewBefore: '2h' })
  await world.pass(hourMs)
  const second = await world.replaced(first)
  await world.client.delete(Certificate, 'web')
  await world.gone(Certificate, 'web')
  expect(await world.revoked()).toEqual([first.status?.serial, second.status?.serial])
})

test('a certificate that a crash has kept out of the status is revoked too', async () => {
  await using world = await World.start()
  await world.createCA()
  const first = await world.issue('web')
  const none = { serial: null, issuer: null, notAfter: null }
  await world.client.patchStatus(Certificate, 'web', none)
  await world.client.patch(Certificate, 'web', { spec: { dnsNames: ['www.example.com'] } })
  const second = await world.replaced(first)
  await world.client.patchStatus(Certificate, 'web', none)
  await world.client.delete(Certificate, 'web')
  await world.gone(Certificate, 'web')
  expect(await world.revoked()).toEqual([first.status?.serial, second.status?.serial])
})

test('a certificate that is replaced too often is revoked before it is forgotten', async () => {
  await using world = await World.start()
  await world.createCA()
  let web = await world.issue('web')
  const first = web.status?.serial
  for (let n = 0; n <= certificateDefaults.superseded; n++) {
    expect(await world.revoked()).toEqual([])
    await world.client.patch(Certificate, 'web', { spec: { dnsNames: [`web-${n}.example.com`] } })
    web = await world.replaced(web)
  }
  expect(await world.revoked()).toEqual([first])
  expect(web.status?.superseded).toHaveLength(certificateDefaults.superseded)
})

test('a certificate can be deleted while its CA cannot sign; the list has it, and the CRL later', async () => {
  await using world = await World.start()
  await world.createCA()
  await world.issue('web')
  const before = await crl(world)
  const { spec } = await world.client.get(KeyPair, 'root')
  await world.client.patch(KeyPair, 'root', { spec: { privateKey: '-----BEGIN PRIVATE KEY-----\nAAAA' } })
  await world.becomes(Issuer, 'ca', until.condition('Ready', 'False'))
  await world.client.delete(Certificate, 'web')
  await world.gone(Certificate, 'web')
  expect(await world.revoked()).toHaveLength(1)
  expect(await crl(world)).toEqual(before)
  await world.client.patch(KeyPair, 'root', { spec: { privateKey: spec.privateKey } })
  await world.becomes(RevocationList, 'ca', list => list?.spec.crl?.digest !== before?.digest)
})

test('certificates of issuers without a list, or without an issuer, can be deleted', async () => {
  await using world = await World.start()
  await world.createCA()
  await world.issue('web')
  await world.client.delete(Certificate, 'root')
  await world.gone(Certificate, 'root')
  await world.client.delete(Issuer, 'ca')
  await world.gone(RevocationList, 'ca')
  await world.client.delete(Certificate, 'web')
  await world.gone(Certificate, 'web')
})

test('many deletions at once are all on the list', async () => {
  await using world = await World.start()
  await world.createCA()
  const names = Array.from({ length: 40 }, (_, n) => `web-${n}`)
  const certificates = await Promise.all(names.map(name => world.issue(name)))
  const { number = 0 } = (await crl(world)) ?? {}
  const { version } = (await world.client.get(RevocationList, 'ca')).metadata
  await Promise.all(names.map(name => world.client.delete(Certificate, name)))
  for (const name of names) await world.gone(Certificate, name)
  expect((await world.revoked()).toSorted()).toEqual(
    certificates.map(({ status }) => status?.serial).toSorted(),
  )
  expect((await crl(world))?.number).toBeGreaterThan(number)
  expect(version).not.toBe((await world.client.get(RevocationList, 'ca')).metadata.version)
})

test('a list is signed again at half of its lifetime, and drops certificates that expired long ago', async () => {
  await using world = await World.start()
  await world.createCA()
  await world.issue('web', { duration: '24h' })
  await world.client.delete(Certificate, 'web')
  await world.gone(Certificate, 'web')
  const before = await crl(world)
  await world.pass(revocationDefaults.refreshMs)
  const again = await world.becomes(
    RevocationList,
    'ca',
    list => list !== undefined && (list.spec.crl?.number ?? 0) > (before?.number ?? 0),
  )
  expect(again.spec.revoked).toHaveLength(1)
  expect(Date.parse(again.spec.crl?.nextUpdate ?? '')).toBeGreaterThan(world.clock.now() + 6 * dayMs)
  await world.pass(revocationDefaults.lifetimeMs)
  await world.becomes(RevocationList, 'ca', list => list?.spec.revoked?.length === 0)
})

test('a full list keeps the certificate and says so', async () => {
  await using world = await World.start()
  await world.createCA()
  await world.issue('web')
  const notAfter = new Date(world.clock.now() + dayMs).toISOString()
  const revoked = Array.from({ length: revocationDefaults.entries }, (_, n) => ({
    serial: n.toString(16).padStart(8, '0'),
    revokedAt: notAfter,
    notAfter,
  }))
  await world.client.patch(RevocationList, 'ca', { spec: { revoked } })
  await world.client.delete(Certificate, 'web')
  const full = await world.becomes(
    Certificate,
    'web',
    web => getCondition(web?.status?.conditions, 'Ready')?.reason === 'RevocationListFull',
  )
  expect(full.metadata.finalizers).toHaveLength(1)
  // Entries are dropped some time after their certificates have expired.
  await world.pass(dayMs + revocationDefaults.lifetimeMs)
  await world.gone(Certificate, 'web')
  expect(await world.revoked()).toEqual([full.status?.serial])
})
