import { readFile } from 'node:fs/promises'
import { HttpTransport, type Logger } from '@setpoint/controller-runtime'
import type { WatchedFiles } from '../security/index.ts'
import type { CertificateValidity } from './certificate-validity.ts'
import { checkAuthorities, isToken, type NamedText } from './flags-files.ts'

/** The server that a command calls. */
export interface ServerConnection {
  /** URL of the API without a trailing slash. */
  readonly server: string
  /** Bearer token for the API. */
  readonly serverToken: NamedText | undefined
  /** CA certificates (PEM) for the API. */
  readonly serverCa: NamedText | undefined
}

/**
 * Returns a transport that reads the file with the token for each request, because tokens are renewed.
 * @param ca returns the CA certificates for new connections. Default: those of the start
 */
export function serverTransport(
  { server, serverToken, serverCa }: ServerConnection,
  ca = () => serverCa?.text,
): HttpTransport {
  return new HttpTransport({
    server,
    token: serverToken && tokenReader(serverToken),
    tls: () => ({ ca: ca() }),
  })
}

/**
 * Returns a transport that also follows the file with the CA certificates. If the file is unusable, that is logged and
 * the old certificates stay in use.
 */
export function lastingTransport(
  connection: ServerConnection,
  { files, validity, log }: { files: WatchedFiles; validity: CertificateValidity; log: Logger },
): HttpTransport {
  const { serverCa } = connection
  if (serverCa === undefined) return serverTransport(connection)
  const { path } = serverCa
  let ca = serverCa.text
  validity.watch('server-ca', serverCa)
  files.follow('server-ca', {
    paths: [path],
    known: [ca],
    failed: error =>
      log.error(
        { path, err: error },
        'failed to reload the CA certificates of the server, keeping the old ones',
      ),
    changed: ([changed = '']) => {
      checkAuthorities({ path, text: changed })
      ca = changed
      validity.watch('server-ca', { path, text: changed })
      log.info({ path }, 'reloaded the CA certificates of the server')
    },
  })
  return serverTransport(connection, () => ca)
}

/** Returns a function that returns the token in the file, or the one before as long as the file has none. */
function tokenReader({ path, text }: NamedText): () => Promise<string> {
  let token = text
  return async () => {
    const found = await readFile(path, 'utf8').catch(() => '')
    if (isToken(found.trim())) token = found.trim()
    return token
  }
}
