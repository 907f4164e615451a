import { X509Certificate } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { silentLogger } from '@setpoint/controller-runtime'
import { FakeClock } from '@setpoint/controller-runtime/testing'
import { afterEach, describe, expect, it } from 'vitest'
import { openssl } from '../../../test/support/openssl.ts'
import { CertificateValidity } from './certificate-validity.ts'

const dayMs = 24 * 3_600_000

async function makeCertificate(days: number): Promise<string> {
  const dir = mkdtempSync(join(tmpdir(), 'setpoint-validity-'))
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', 'key']
  await openssl(dir, 'req', '-x509', ...key, '-subj', '/CN=a', '-out', 'cert', '-days', String(days))
  const text = readFileSync(join(dir, 'cert'), 'utf8')
  rmSync(dir, { recursive: true })
  return text
}

const text = await makeCertificate(100)
const from = Date.parse(new X509Certificate(text).validFrom)

describe('a certificate of 100 days', () => {
  let validity: CertificateValidity
  afterEach(() => validity.close())

  /** Watches the certificate from some days after its start on. */
  function watch(days: number) {
    const clock = new FakeClock(from + days * dayMs)
    const logged: string[] = []
    const log = {
      ...silentLogger,
      warn: (_: object, message: string) => logged.push(`warn: ${message}`),
      error: (_: object, message: string) => logged.push(`error: ${message}`),
    }
    validity = new CertificateValidity(log, clock)
    validity.watch('server', { path: '/cert.pem', text })
    return { clock, logged }
  }

  it('is reported each day of its last tenth, and once it has expired while the server runs', async () => {
    const { clock, logged } = watch(0.5)
    await clock.advance(89 * dayMs)
    expect(logged).toEqual([])
    await clock.advance(2 * dayMs)
    const soon = 'warn: the certificate expires soon, then clients refuse it'
    expect(logged).toEqual([soon, soon])
    logged.length = 0
    await clock.advance(9 * dayMs)
    expect(logged.at(-1)).toBe('error: the certificate has expired, clients refuse it')
  })

  it('that has been renewed is no longer reported', async () => {
    const { clock, logged } = watch(99)
    expect(logged).toHaveLength(1)
    validity.watch('server', { path: '/cert.pem', text: await makeCertificate(5000) })
    logged.length = 0
    await clock.advance(3 * dayMs)
    expect(logged).toEqual([])
  })

  it('is one of several authorities, of which the one that is valid longest counts', async () => {
    const { clock, logged } = watch(0.5)
    const longer = await makeCertificate(5000)
    validity.watch('client-ca', { path: '/ca.pem', text: text + longer })
    const { validTo } = new X509Certificate(longer)
    expect(validity.expirations()).toEqual([
      { certificate: 'server', seconds: Date.parse(new X509Certificate(text).validTo) / 1000 },
      { certificate: 'client-ca', seconds: Date.parse(validTo) / 1000 },
    ])
    await clock.advance(101 * dayMs)
    expect(logged.at(-1)).toBe('error: the certificate has expired, clients refuse it')
    expect(logged).not.toContainEqual(expect.stringContaining('certificates of clients'))
    validity.watch('client-ca', { path: '/ca.pem', text })
    expect(logged.at(-1)).toBe('error: the certificate has expired, certificates of clients are refused')
  })

  it('that is not valid yet is reported at once', () => {
    expect(watch(-1).logged).toEqual([
      'error: the certificate is not valid yet, clients refuse it; check the clock',
    ])
  })
})
