import type { ApiServer } from '../http/index.ts'
import type { Logger } from '../log/index.ts'
import { FileWatch } from '../security/index.ts'
import type { ServerAuthentication } from './authentication.ts'
import { CertificateValidity } from './certificate-validity.ts'
import { checkKeyPair } from './key-pair.ts'
import type { ServerOptions } from './options.ts'

/**
 * Uses renewed certificates of the server from the next connection on, and other CA certificates of clients for every
 * request. Reports unusable files and keeps the old ones, and reports a certificate that expires.
 */
export function renewCertificates(
  app: ApiServer,
  { cert, key, clients }: NonNullable<ServerOptions['tls']> & Pick<ServerAuthentication, 'clients'>,
  log: Logger,
): { close(): void } {
  const validity = new CertificateValidity('clients refuse it', log)
  validity.watch(cert)
  const files = [cert, key, ...(clients === undefined ? [] : [clients.ca])]
  const watch = new FileWatch({
    paths: files.map(({ path }) => path),
    known: files.map(({ text }) => text),
    failed: error =>
      log.error({ path: cert.path, err: error }, 'failed to reload the certificate, keeping the old one'),
    changed: ([newCert = '', newKey = '', clientCa]) => {
      checkKeyPair({ cert: newCert, key: newKey })
      // Throws for a file without certificates, which TLS would accept.
      if (clientCa !== undefined) clients?.certificates.use(clientCa)
      app.renewTls({ cert: newCert, key: newKey, clientCa })
      log.info({ path: cert.path }, 'reloaded the certificate')
      validity.watch({ path: cert.path, text: newCert })
    },
  })
  return {
    close() {
      watch.close()
      validity.close()
    },
  }
}
