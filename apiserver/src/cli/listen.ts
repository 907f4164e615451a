import type { AddressInfo } from 'node:net'
import type { ApiServer } from '../http/index.ts'
import { formatAddress, type ListenAddress } from './flags-values.ts'
import type { ServerOptions } from './options.ts'

export const listenDefaults = Object.freeze({
  /**
   * Connections that may wait to be accepted. Linux allows 4,096 by default. With Node's 511, a burst of connections
   * makes the system drop others, and their clients retry after a second or more.
   */
  backlog: 4_096,
})

/** Begins to accept connections. Returns the server's URL, with the real port. @throws Error that names the remedy */
export function listen(
  app: ApiServer,
  { listen: address, basePath, tls }: Pick<ServerOptions, 'listen' | 'basePath' | 'tls'>,
): Promise<string> {
  const { server } = app
  const isSecure = tls !== undefined
  return new Promise((resolve, reject) => {
    const refused = (error: NodeJS.ErrnoException) =>
      reject(new Error(describeListenError(error, address), { cause: error }))
    server.once('error', refused)
    const { backlog } = listenDefaults
    server.listen({ port: address.port, host: address.host, backlog }, () => {
      server.off('error', refused)
      const { address: host, port, family } = server.address() as AddressInfo
      resolve(`${isSecure ? 'https' : 'http'}://${family === 'IPv6' ? `[${host}]` : host}:${port}${basePath}`)
    })
  })
}

/** Explains the usual reasons, with the remedy. */
function describeListenError({ code, message }: NodeJS.ErrnoException, address: ListenAddress): string {
  const where = `cannot listen on ${formatAddress(address)}`
  if (code === 'EADDRINUSE')
    return `${where}: the port is in use; stop what uses it, or choose another with --listen`
  if (code === 'EACCES') return `${where}: this user may not use the port; choose one from 1024 with --listen`
  if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND') return `${where}: this machine has no such address`
  return `${where}: ${message}`
}
