import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { openssl } from '../../../test/support/openssl.ts'
import { checkKeyPair } from './key-pair.ts'

/** Makes a certificate with its key, and the same key under a passphrase in both of OpenSSL's forms. */
async function makePair() {
  const dir = await mkdtemp(join(tmpdir(), 'setpoint-key-pair-'))
  try {
    const files = ['-keyout', 'key', '-out', 'cert']
    await openssl(dir, 'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-subj', '/CN=a', ...files)
    const locked = ['-in', 'key', '-passout', 'pass:secret']
    await openssl(dir, 'pkcs8', '-topk8', ...locked, '-out', 'pkcs8')
    await openssl(dir, 'rsa', '-traditional', '-aes128', ...locked, '-out', 'pkcs1')
    const [cert = '', key = '', pkcs8 = '', pkcs1 = ''] = await Promise.all(
      ['cert', 'key', 'pkcs8', 'pkcs1'].map(name => readFile(join(dir, name), 'utf8')),
    )
    return { cert, key, pkcs8, pkcs1 }
  } finally {
    await rm(dir, { recursive: true })
  }
}

const { cert, key, pkcs8, pkcs1 } = await makePair()
const other = await makePair()

describe('a certificate and its key', () => {
  it('can be in files of their own, or both in one', () => {
    expect(() => checkKeyPair({ cert, key })).not.toThrow()
    expect(() => checkKeyPair({ cert: cert + key, key: cert + key })).not.toThrow()
  })

  it.each([
    ['are swapped', { cert: key, key: cert }, 'are swapped'],
    ['are both the certificate', { cert, key: cert }, 'the file of the key has no private key'],
    ['are both the key', { cert: key, key }, 'the file of the certificate has no certificate'],
    ['are of two pairs', { cert, key: other.key }, 'the key does not belong to the certificate'],
    ['need a passphrase (PKCS #8)', { cert, key: pkcs8 }, 'the key has a passphrase'],
    ['need a passphrase (PKCS #1)', { cert, key: pkcs1 }, 'the key has a passphrase'],
  ])('that %s are refused with the reason', (_, pair, reason) => {
    expect(() => checkKeyPair(pair)).toThrow(reason)
  })
})
