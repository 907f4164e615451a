import { readFile } from 'node:fs/promises'
import { HttpTransport } from '@setpoint/controller-runtime'
import { isToken, type NamedText } from './flags-files.ts'

/** The server that a command calls. */
export interface ServerConnection {
  /** URL of the API without a trailing slash. */
  readonly server: string
  /** Bearer token for the API. */
  readonly serverToken: NamedText | undefined
  /** CA certificates (PEM) for the API. */
  readonly serverCa: string | undefined
}

/** Returns a transport that reads the file with the token for each request, because tokens are renewed. */
export function serverTransport({ server, serverToken, serverCa }: ServerConnection): HttpTransport {
  return new HttpTransport({
    server,
    token: serverToken && tokenReader(serverToken),
    tls: { ca: serverCa },
  })
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
