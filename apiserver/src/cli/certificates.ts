import type { ApiServer } from '../http/index.ts'
import type { Logger } from '../log/index.ts'
import type { WatchedFiles } from '../security/index.ts'
import type { ServerAuthentication } from './authentication.ts'
import type { CertificateValidity } from './certificate-validity.ts'
import { checkKeyPair } from './key-pair.ts'
import type { ServerOptions } from './options.ts'

/**
 * Uses renewed certificates of the server from the next connection on, and other CA certificates of clients for every
 * request. Reports unusable files and keeps the old ones, and reports a certificate that expires.
 */
export function renewCertificates(
  app: ApiServer,
  { cert, key, clients }: NonNullable<ServerOptions['tls']> & Pick<ServerAuthentication, 'clients'>,
  { files, validity, log }: { files: WatchedFiles; validity: CertificateValidity; log: Logger },
): void {
  validity.watch('server', cert)
  if (clients !== undefined) validity.watch('client-ca', clients.ca)
  const watched = [cert, key, ...(clients === undefined ? [] : [clients.ca])]
  files.follow('tls-cert', {
    paths: watched.map(({ path }) => path),
    known: watched.map(({ text }) => text),
    failed: error =>
      log.error({ path: cert.path, err: error }, 'failed to reload the certificate, keeping the old one'),
    changed: ([newCert = '', newKey = '', clientCa]) => {
      checkKeyPair({ cert: newCert, key: newKey })
      // Throws for a file without certificates, which TLS would accept.
      if (clientCa !== undefined) clients?.certificates.use(clientCa)
      app.renewTls({ cert: newCert, key: newKey, clientCa })
      log.info({ path: cert.path }, 'reloaded the certificate')
      validity.watch('server', { path: cert.path, text: newCert })
      if (clients !== undefined && clientCa !== undefined)
        validity.watch('client-ca', { path: clients.ca.path, text: clientCa })
    },
  })
}
