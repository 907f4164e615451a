import { mkdtemp, readFile, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openssl } from './openssl.ts'

/** Paths of a CA certificate and of one certificate for 127.0.0.1 for servers and clients. */
export interface Certificates {
  readonly folder: string
  readonly ca: string
  readonly cert: string
  readonly key: string
  /** Replaces the certificate with another one that the same CA has signed. */
  renew(): Promise<void>
  /**
   * Makes a client's certificate.
   * @param subject as openssl writes it, such as `/O=setpoint:viewers/CN=ann`
   * @param days until it expires; 0 for one that has expired
   */
  client(subject: string, days?: number): Promise<ClientCertificate>
}

/** PEM texts. */
export interface ClientCertificate {
  readonly cert: string
  readonly key: string
}

/** @param names those of the servers' certificate besides 127.0.0.1, such as `DNS:localhost` */
export async function makeCertificates(...names: string[]): Promise<Certificates> {
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-tls-'))
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes']
  const root = ['-keyout', 'ca.key', '-out', 'ca.pem', '-days', '2', '-subj', '/CN=ca']
  await openssl(folder, 'req', '-x509', ...newKey, ...root)
  await writeFile(
    join(folder, 'names'),
    `subjectAltName=${['IP:127.0.0.1', ...names].join(',')}\nextendedKeyUsage=serverAuth,clientAuth\n`,
  )
  const signing = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-extfile', 'names', '-days', '2']
  const renew = async () => {
    await openssl(
      folder,
      'req',
      ...newKey,
      '-keyout',
      'key.pem',
      '-out',
      'request.pem',
      '-subj',
      '/CN=setpoint',
    )
    await openssl(folder, 'x509', '-req', '-in', 'request.pem', ...signing, '-out', 'cert.pem')
  }
  await renew()
  const file = (name: string) => join(folder, name)
  // OpenSSL tells CAs of one name apart by their keys.
  await writeFile(join(folder, 'client'), 'authorityKeyIdentifier=keyid\n')
  const client = async (subject: string, days = 2) => {
    const sign = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial']
    sign.push('-extfile', 'client', '-days', String(days))
    await openssl(folder, 'req', ...newKey, '-keyout', 'user.key', '-out', 'user.req', '-subj', subject)
    await openssl(folder, 'x509', '-req', '-in', 'user.req', ...sign, '-out', 'user.pem')
    const [cert, key] = await Promise.all(['user.pem', 'user.key'].map(name => readFile(file(name), 'utf8')))
    return { cert: cert ?? '', key: key ?? '' }
  }
  return { folder, ca: file('ca.pem'), cert: file('cert.pem'), key: file('key.pem'), renew, client }
}
