import { constants } from 'node:crypto'
import {
  createServer,
  type IncomingMessage,
  type Server,
  type ServerOptions,
  type ServerResponse,
} from 'node:http'
import { createServer as createSecureServer, type Server as SecureServer } from 'node:https'
import { Socket } from 'node:net'
import type { SecureContextOptions } from 'node:tls'
import { ApiError } from '@setpoint/controller-runtime/api'
import type { AuditLog } from '../audit/index.ts'
import { loadPatchKeywords } from '../kubernetes/index.ts'
import type { Logger } from '../log/index.ts'
import type { Metrics } from '../metrics/index.ts'
import type { ModelRegistry } from '../model/index.ts'
import { ApiDocuments } from '../openapi/index.ts'
import type { RequestQueues } from '../scheduling/index.ts'
import { type Access, type Authorizer, ImpersonatingAccess, type Origins } from '../security/index.ts'
import type { WatchConnections, WatchHub } from '../watch/index.ts'
import { requestLimits } from './api-request.ts'
import { CallerCounts } from './caller-counts.ts'
import { createChain } from './chain.ts'
import { connectionDefaults } from './connection.ts'
import { Connections } from './connections.ts'
import type { CustomRoutes } from './custom-routes.ts'
import { type ExplainFault, toApiError } from './error-response.ts'
import { HandshakeResponse } from './handshake-response.ts'
import type { Health } from './health.ts'
import type { IssuerRoutesParts } from './issuer-routes.ts'
import type { OperationsRoutesParts } from './operations-routes.ts'
import { Paths } from './paths.ts'
import type { ResourceApi } from './resource-api.ts'
import type { SignInRoutesParts } from './sign-in-routes.ts'
import { SlowRequests } from './slow-requests.ts'
import { offersWebSocket, requestsThatUpgrade } from './upgrade-offer.ts'
import { WatchApi } from './watch-api.ts'
import { servedTypes } from './write-parameters.ts'

const secureDefaults = Object.freeze({ minVersion: 'TLSv1.2' } as const)

interface ApiServerParts extends IssuerRoutesParts, OperationsRoutesParts, SignInRoutesParts {
  readonly models: ModelRegistry
  readonly api: ResourceApi
  readonly routes: CustomRoutes
  readonly hub: WatchHub
  readonly watchConnections: WatchConnections
  readonly origins: Origins
  readonly access: Access
  readonly authorizer: Authorizer
  readonly queues: RequestQueues
  readonly health: Health
  readonly metrics: Metrics
  readonly log: Logger
  /** The settings in force, without secrets. Default: none. */
  readonly settings?: object
  /** Milliseconds from which a request is logged as slow; 0 if none is. Default: none. */
  readonly slowRequestMs?: number
  /** Undefined if requests are not audited. */
  readonly audit?: AuditLog
  /** True while plugins may still add kinds and routes: unknown paths below /apis are 503 then, not 404. */
  readonly isStarting: () => boolean
  /** Plain HTTP without. */
  readonly tls?: TlsFiles
  /** Absent in production: a 500 tells nothing about its cause. */
  readonly explainFault?: ExplainFault
}

/** The server's certificate chain and key, as PEM text. */
interface TlsFiles {
  readonly cert: string
  readonly key: string
  /** CA certificates of clients, which may present a certificate. */
  readonly clientCa?: string
}

/** The HTTP server of the API: its sockets, TLS, and the shutdown. `createChain` makes the way of a request. */
export class ApiServer {
  readonly server: Server | SecureServer
  readonly #watches: WatchApi
  readonly #connections: Connections

  constructor(parts: ApiServerParts) {
    const { api, authorizer, queues, hub, log, audit, tls } = parts
    const access = new ImpersonatingAccess(parts.access, authorizer)
    const paths = new Paths(parts)
    const options: ServerOptions = {
      ...serverOptions,
      IncomingMessage: requestsThatUpgrade(
        message => offersWebSocket(message) && this.#connections.mayRelease(message.socket),
      ),
    }
    this.server =
      tls === undefined
        ? createServer(options)
        : createSecureServer({
            ...options,
            ...secureOptions(tls),
            // A request without a valid certificate may have a token, so its authentication decides.
            requestCert: tls.clientCa !== undefined,
            rejectUnauthorized: false,
            handshakeTimeout: connectionDefaults.handshakeMs,
          })
    // Node would drop headers above this number silently. `maxHeaderSize` bounds their bytes.
    this.server.maxHeadersCount = 0
    this.#connections = new Connections(this.server, { log })
    this.#watches = new WatchApi({
      api,
      hub,
      connections: parts.watchConnections,
      access,
      authorizer,
      queues,
      audit,
      paths,
      toApiError: thrown => toApiError(thrown, log, { method: 'watch' }),
    })
    this.#handleRequests({ ...parts, access }, paths)
  }

  #handleRequests(parts: ApiServerParts & { readonly access: ImpersonatingAccess }, paths: Paths): void {
    const { log, settings = {}, slowRequestMs = 0 } = parts
    const connections = this.#connections
    const watches = this.#watches
    const documents = new ApiDocuments({
      ...parts,
      formatsOf: servedTypes,
      patchKeywordsOf: loadPatchKeywords,
    })
    const respond = createChain({
      ...parts,
      documents,
      connections,
      paths,
      watches,
      settings,
      callers: new CallerCounts(),
      slow: new SlowRequests(log, slowRequestMs),
    }).callback()
    const handle = (message: IncomingMessage, response: ServerResponse) =>
      connections.handle(message, response, respond)
    const { server } = this
    server.on('request', handle)
    // Ignores unsupported Expect headers (RFC 9110, 10.1.1).
    server.on('checkExpectation', handle)
    server.on('upgrade', (message, socket, head) => {
      if (socket.destroyed) return
      connections.release(message.socket)
      void respond(message, new HandshakeResponse(message, head))
    })
    // The caller of listen() reports its error.
    server.on('error', error => {
      if (server.listening) log.error({ err: error }, 'failed to accept connection')
    })
    server.on('clientError', (error: Error & { code?: string }, socket) => {
      if (error.code === 'ECONNRESET' || !(socket instanceof Socket)) socket.destroy()
      else connections.refuse(socket, malformedRequest(error))
    })
  }

  /** Uses other certificates for new connections. @throws Error if certificate and key do not match */
  renewTls(tls: TlsFiles): void {
    if ('setSecureContext' in this.server) this.server.setSecureContext(secureOptions(tls))
  }

  /** Rejects new watches, and ends the open ones within the time. */
  drainWatches(graceMs: number): Promise<void> {
    return this.#watches.drain(graceMs)
  }

  /**
   * Stops accepting connections, responds to the requests on open ones, and closes them. Resolves when all connections
   * are closed, including those of watches.
   */
  drainConnections(): Promise<void> {
    return this.#connections.drain()
  }

  /** Destroys all sockets that are still open. */
  close(): void {
    this.#watches.close()
    this.#connections.close()
  }
}

function secureOptions({ cert, key, clientCa }: TlsFiles): SecureContextOptions {
  return {
    ...secureDefaults,
    cert,
    key,
    // A resumed session would not verify the client's certificate again.
    ...(clientCa !== undefined && { ca: clientCa, secureOptions: constants.SSL_OP_NO_TICKET }),
  }
}

const serverOptions: ServerOptions = Object.freeze({
  maxHeaderSize: requestLimits.headerBytes,
  headersTimeout: connectionDefaults.headersMs,
  requestTimeout: connectionDefaults.requestMs,
  keepAliveTimeout: connectionDefaults.keepAliveMs,
  connectionsCheckingInterval: connectionDefaults.checkMs,
  // Node would reject a missing Host header without a Status.
  requireHostHeader: false,
  // TCP keep-alive finds clients that vanished while nothing was sent to them.
  keepAlive: true,
  keepAliveInitialDelay: connectionDefaults.probeAfterMs,
})

/** The error for bytes that are not HTTP, for headers that are too large, and for a request that arrives too slowly. */
function malformedRequest({ code }: Error & { code?: string }): ApiError {
  if (code === 'HPE_HEADER_OVERFLOW')
    return new ApiError(
      'BadRequest',
      `the request line and headers are larger than ${requestLimits.headerBytes} bytes`,
    )
  const isLate = code === 'ERR_HTTP_REQUEST_TIMEOUT'
  return new ApiError(
    'BadRequest',
    isLate ? 'the request did not arrive in time' : 'the request is not well-formed HTTP',
  )
}
