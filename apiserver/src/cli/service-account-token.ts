import type { HttpTransport, Logger } from '@setpoint/controller-runtime'
import { isRecord } from '@setpoint/controller-runtime/api'
import { decodeError } from '@setpoint/controller-runtime/internal'
import { WatchedFiles, warnIfReadableByAll } from '../security/index.ts'
import { CertificateValidity } from './certificate-validity.ts'
import type { ServiceAccountTokenOptions } from './options.ts'
import { replaceSecretFile } from './secret-file.ts'
import type { Started } from './serve.ts'
import { lastingTransport, serverTransport } from './server-transport.ts'
import { type IssuedToken, renewToken } from './token-renewal.ts'

/**
 * Requests a token of a service account. Prints it, writes it to a file, or keeps a valid one in the file until a
 * signal asks to stop.
 * @throws ApiError, TransportError or the error of the file, if the token is not renewed
 */
export async function serviceAccountToken(options: ServiceAccountTokenOptions): Promise<void> {
  const { output } = options
  if (output?.isRenewed === true) {
    const { runUntilStopped } = await import('./serve.ts')
    const { server } = options
    await runUntilStopped({ options, settings: { server }, warnings: [] }, ({ logger }) =>
      Promise.resolve(keepToken(options, output.path, logger)),
    )
    return
  }
  const transport = serverTransport(options)
  try {
    const { token } = await requestToken(transport, options)
    if (output === undefined) process.stdout.write(`${token}\n`)
    else await replaceSecretFile(output.path, token)
  } finally {
    transport.close()
  }
}

/** Starts to renew the token. */
function keepToken(options: ServiceAccountTokenOptions, path: string, logger: Logger): Started {
  const { account, serverToken } = options
  if (serverToken !== undefined) warnIfReadableByAll(serverToken.path, logger)
  const files = new WatchedFiles(logger)
  const validity = new CertificateValidity(logger)
  const transport = lastingTransport(options, { files, validity, log: logger })
  const stopping = new AbortController()
  const serviceAccount = `${account.namespace}/${account.name}`
  const renewing = renewToken(
    {
      request: signal => requestToken(transport, options, signal),
      write: token => replaceSecretFile(path, token),
      log: logger.child({ serviceAccount, path }),
    },
    stopping.signal,
  )
  return {
    lines: { line: `setpoint keeps a token of ${serviceAccount} in ${path}` },
    running: {
      async stop() {
        stopping.abort()
        await renewing
        files.close()
        validity.close()
        transport.close()
      },
    },
  }
}

/** @throws ApiError, TransportError, the signal's reason */
async function requestToken(
  transport: HttpTransport,
  { account, audiences, lifeSeconds, boundSecret }: ServiceAccountTokenOptions,
  signal?: AbortSignal,
): Promise<IssuedToken> {
  const response = await transport.request({
    method: 'POST',
    path: `/api/v1/namespaces/${account.namespace}/serviceaccounts/${account.name}/token`,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenRequest',
      spec: {
        audiences,
        expirationSeconds: lifeSeconds,
        boundObjectRef: boundSecret && { kind: 'Secret', apiVersion: 'v1', name: boundSecret },
      },
    }),
    signal,
  })
  if (response.status !== 201) throw decodeError(response)
  const { spec, status } = fieldsOf(JSON.parse(response.body))
  const { token } = fieldsOf(status)
  const { expirationSeconds } = fieldsOf(spec)
  if (typeof token !== 'string' || typeof expirationSeconds !== 'number')
    throw new Error('the response to the token request has no token or no expirationSeconds')
  return { token, lifeMs: expirationSeconds * 1000 }
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return isRecord(value) ? value : {}
}
