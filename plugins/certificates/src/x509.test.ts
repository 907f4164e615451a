import { createPublicKey, verify } from 'node:crypto'
import { AsnConvert } from '@peculiar/asn1-schema'
import { Certificate, CertificateList, CRLDistributionPoints, CRLNumber, KeyUsage } from '@peculiar/asn1-x509'
import { beforeAll, expect, test } from 'vitest'
import { generateKey } from './private-key.ts'
import { type CertificateTemplate, signCertificate, signRevocationList } from './x509.ts'

let template: CertificateTemplate
beforeAll(async () => {
  template = {
    serial: '0102',
    subject: 'Root',
    dnsNames: [],
    ipAddresses: [],
    uris: [],
    notBefore: Date.UTC(2026, 0, 1),
    notAfter: Date.UTC(2060, 0, 1),
    isCA: true,
    usages: ['cert sign', 'crl sign'],
    key: await generateKey({ algorithm: 'ECDSA', size: 256 }),
    crlUrl: undefined,
    authority: undefined,
  }
})

function parse(pem: string) {
  const der = Buffer.from(pem.replace(/-----[^-]+-----/g, ''), 'base64')
  return AsnConvert.parse(der, CertificateList)
}

const hex = (bytes: ArrayBuffer) => Buffer.from(bytes).toString('hex')

test.each([0, 1, 3, 200, 2_000])(
  'a revocation list of %s certificates is as RFC 5280 wants it',
  async count => {
    const authority = { key: template.key, certificate: await signCertificate(template) }
    const serials = [
      '01ff',
      'ff01',
      '0001',
      ...Array.from({ length: count }, (_, n) => `02${n.toString(16).padStart(6, '0')}`),
    ]
    const revoked = serials.slice(0, count).map((serial, n) => ({
      serial,
      revokedAt: `${n % 2 === 0 ? 2049 : 2050}-02-03T04:05:06.789Z`,
    }))
    const [thisUpdate, nextUpdate] = [new Date(Date.UTC(2027, 0, 1)), new Date(Date.UTC(2050, 0, 1))]
    const pem = await signRevocationList({
      revoked,
      number: 70_000_000_000,
      thisUpdate,
      nextUpdate,
      authority,
    })
    const { tbsCertList: list, signature } = parse(pem)
    expect((list.revokedCertificates ?? []).map(each => hex(each.userCertificate))).toEqual(
      ['01ff', '00ff01', '01', ...serials.slice(3)].slice(0, count),
    )
    expect((list.revokedCertificates ?? []).map(each => each.revocationDate.getTime().toISOString())).toEqual(
      revoked.map(({ revokedAt }) => revokedAt.replace('.789', '.000')),
    )
    expect(list.thisUpdate.getTime()).toEqual(thisUpdate)
    expect(list.nextUpdate?.getTime()).toEqual(nextUpdate)
    const [, number] = list.crlExtensions ?? []
    expect(Number(number && AsnConvert.parse(number.extnValue.buffer, CRLNumber).value)).toBe(70_000_000_000)
    const signed = new Uint8Array(AsnConvert.serialize(list))
    expect(verify('sha256', signed, createPublicKey(template.key), new Uint8Array(signature))).toBe(true)
  },
)

test('a certificate names its list, its usages and the key of its CA', async () => {
  const root = await signCertificate(template)
  const leaf = await signCertificate({
    ...template,
    subject: 'a',
    dnsNames: ['a.example.com'],
    isCA: false,
    usages: ['digital signature', 'server auth', 'code signing'],
    crlUrl: 'https://example.com/crl',
    authority: { key: template.key, certificate: root },
  })
  expect(leaf.checkIssued(root)).toBe(true)
  expect(leaf.keyUsage).toEqual(['1.3.6.1.5.5.7.3.1', '1.3.6.1.5.5.7.3.3'])
  const { extensions = [], issuer } = AsnConvert.parse(leaf.raw, Certificate).tbsCertificate
  const extension = (id: string) => extensions.find(({ extnID }) => extnID === id)
  const usage = AsnConvert.parse(extension('2.5.29.15')?.extnValue.buffer ?? new ArrayBuffer(0), KeyUsage)
  expect(usage.toJSON()).toEqual(['digitalSignature'])
  const points = AsnConvert.parse(
    extension('2.5.29.31')?.extnValue.buffer ?? new ArrayBuffer(0),
    CRLDistributionPoints,
  )
  expect(points[0]?.distributionPoint?.fullName?.[0]?.uniformResourceIdentifier).toBe(
    'https://example.com/crl',
  )
  expect(AsnConvert.serialize(issuer)).toEqual(
    AsnConvert.serialize(AsnConvert.parse(root.raw, Certificate).tbsCertificate.subject),
  )
})
