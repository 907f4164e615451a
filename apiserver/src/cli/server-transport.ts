import { readFile } from 'node:fs/promises'
import { HttpTransport } from '@setpoint/controller-runtime'
import type { NamedText } from './flags-files.ts'

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
    token: serverToken && (() => tokenIn(serverToken)),
    tls: { ca: serverCa },
  })
}

/** Returns the token in the file, or the one of the start if the file cannot be read. */
async function tokenIn({ path, text }: NamedText): Promise<string> {
  try {
    return (await readFile(path, 'utf8')).trim() || text
  } catch {
    return text
  }
}
