import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { ApiError } from '@setpoint/controller-runtime/api'
import type { AuditLog } from '../audit/index.ts'
import type { Logger } from '../log/index.ts'
import type { Metrics } from '../metrics/index.ts'
import type { Authorizer, Identity, ImpersonatingAccess, Origins, RequestQueues } from '../security/index.ts'
import { enforce } from './authorize-request.ts'
import { errorResponse, MethodNotAllowedError, toApiError } from './error-response.ts'
import { checkHeaders } from './header-bounds.ts'
import { negotiateObject } from './object-negotiation.ts'
import type { Paths } from './paths.ts'
import { endWith } from './raw-response.ts'
import { asWatch, nothingServed, type RequestInfo, watchable } from './request-info.ts'
import { partyOf, refusalInTurn } from './request-seat.ts'
import { readTarget } from './request-target.ts'
import type { WatchApi } from './watch-api.ts'
import { multiplexProtocol, offersMultiplexing } from './watch-sockets.ts'

interface UpgradesParts {
  readonly origins: Origins
  readonly access: ImpersonatingAccess
  readonly authorizer: Authorizer
  readonly queues: RequestQueues
  readonly metrics: Pick<Metrics, 'requests'>
  readonly log: Logger
  readonly audit?: AuditLog
  readonly paths: Paths
  readonly watches: WatchApi
}

/** WebSocket handshakes, for one watch or for many. They have no response object, so they do not pass the chain. */
export class Upgrades {
  readonly #parts: UpgradesParts

  constructor(parts: UpgradesParts) {
    this.#parts = parts
  }

  /** Completes a handshake, or responds with the Status of an error. Never rejects. */
  async handle(message: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const { origins, access, authorizer, queues, metrics, log, audit, paths, watches } = this.#parts
    // Until ws listens, an error of the socket would end the process.
    const ignore = () => {}
    socket.on('error', ignore)
    const method = message.method ?? ''
    const record = metrics.requests.begin(method)
    const { url: uri = '', headers } = message
    const audited = audit?.begin({ uri, headers, remoteAddress: message.socket.remoteAddress })
    let identity: Identity | undefined
    let info: RequestInfo | undefined
    try {
      checkHeaders(headers)
      origins.check(headers)
      const caller = await access.authenticate(message)
      audited?.identified(caller)
      identity = access.impersonate(caller, headers)
      audited?.identified(identity)
      const party = partyOf('watches', identity, message.socket)
      if (!queues.passes(party)) await queues.wait(party, () => socket.destroyed)
      const { path, query } = readTarget(message)
      const below = paths.belowBase(path)
      if (below === undefined) throw nothingServed(path)
      info = asWatch(paths.read('GET', below, query))
      audited?.concerns(info)
      if (info.served !== undefined) record.concerns(info.served, info.path.version, 'watch')
      const { user } = identity
      enforce(authorizer.grantOf(user, info.verb, info.target), user, info, audited)
      const target = below === '/apis' ? undefined : watchable(info, path, below)
      if (target === undefined && !offersMultiplexing(message))
        throw new ApiError('BadRequest', `a WebSocket at /apis needs the sub-protocol ${multiplexProtocol}`)
      if (method !== 'GET') throw new MethodNotAllowedError(method, ['GET'])
      const { accept } = headers
      const isUpgraded =
        target === undefined
          ? await watches.multiplex(message, socket, head, identity, audited)
          : await watches.upgrade(
              { ...target, ...negotiateObject(accept, target, ['application/json']) },
              message,
              socket,
              head,
              identity,
              audited,
            )
      record.answered(isUpgraded ? 101 : 400)
      if (audited !== undefined && isUpgraded) {
        audited.started(101)
        socket.once('close', () => audited.completed({ code: 101 }))
      } else audited?.completed({ code: 400 })
      socket.off('error', ignore)
    } catch (thrown) {
      const { socket: connection, url } = message
      const error = identity === undefined ? await refusalInTurn(queues, connection, thrown) : thrown
      const response = errorResponse(
        toApiError(error, log, { method: 'upgrade', path: url }),
        audited && { 'audit-id': audited.id },
      )
      record.answered(response.status)
      if (info === undefined) audited?.concerns(asWatch(paths.readEarly('GET', uri)))
      audited?.completed({ code: response.status, body: response.body })
      endWith(socket, response)
    }
  }
}
