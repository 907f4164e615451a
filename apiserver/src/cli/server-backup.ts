import { readFile } from 'node:fs/promises'
import http from 'node:http'
import https from 'node:https'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { errorMessage } from '@setpoint/controller-runtime/api'
import { decodeError } from '@setpoint/controller-runtime/internal'
import type { PrecedingBackup } from '../operations/index.ts'
import type { ServerConnection } from './server-transport.ts'

export const serverBackupDefaults = Object.freeze({
  /** Milliseconds without a byte from the server: it reads its store meanwhile. */
  silenceMs: 60_000,
})

/**
 * Asks a server for a backup, and resolves when it has begun. The stream fails if the server ends it early.
 * @throws ApiError for a refusal; Error if the server cannot be reached
 */
export async function serverBackup(
  { server, serverToken, serverCa }: ServerConnection,
  since: PrecedingBackup | undefined,
  signal: AbortSignal,
): Promise<Readable> {
  const url = new URL(`${server}/operations/backup`)
  if (since !== undefined) {
    url.searchParams.set('since', String(since.revision))
    url.searchParams.set('sha256', since.sha256)
  }
  const token = serverToken && (await readFile(serverToken.path, 'utf8')).trim()
  const response = await new Promise<http.IncomingMessage>((resolve, reject) => {
    const send = url.protocol === 'https:' ? https.request : http.request
    const request = send(url, {
      headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
      ca: serverCa?.text,
      timeout: serverBackupDefaults.silenceMs,
      signal,
    })
    request.once('response', resolve)
    request.once('timeout', () => request.destroy(new Error('the server sends nothing')))
    request.on('error', (error: unknown) => {
      if (signal.aborted) return reject(signal.reason)
      reject(new Error(`cannot reach ${server}: ${errorMessage(error)}`, { cause: error }))
    })
    request.end()
  })
  const { statusCode = 0, headers } = response
  if (statusCode === 200) return response
  const retryAfter = headers['retry-after']
  throw decodeError({
    status: statusCode,
    headers: retryAfter === undefined ? {} : { 'retry-after': retryAfter },
    body: await text(response),
  })
}
