import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { ApiError, type Revision } from '@setpoint/controller-runtime/api'
import type { AuditedRequest, AuditLog } from '../audit/index.ts'
import type { ModelCache } from '../cache/index.ts'
import { type ObjectView, ViewSink } from '../kubernetes/index.ts'
import { type RequestQueues, Turns } from '../scheduling/index.ts'
import { type Access, type Authorizer, type Identity, payerOf } from '../security/index.ts'
import {
  goingAway,
  revoked,
  type Watch,
  type WatchConnections,
  type WatchHub,
  type WatchPlace,
  type WatchRequest,
  type WatchSink,
} from '../watch/index.ts'
import { passChecks } from './checks.ts'
import { auditOutcomeOf } from './error-response.ts'
import { readFresh } from './fresh-kinds.ts'
import type { HandshakeResponse } from './handshake-response.ts'
import { headerBytes } from './header-bytes.ts'
import { negotiateObject } from './object-negotiation.ts'
import type { Paths } from './paths.ts'
import { asWatch, type ResourceRequest, watchable } from './request-info.ts'
import { classOf, partyOf } from './request-seat.ts'
import { splitTarget } from './request-target.ts'
import type { ResourceApi } from './resource-api.ts'
import { warningHeaders } from './warning-headers.ts'
import { socketDefaults, type WatchConnection } from './watch-connection.ts'
import { WatchMultiplexer } from './watch-multiplexer.ts'
import { readWatchRequest, type WatchTransport } from './watch-parameters.ts'
import { WatchPermissions } from './watch-permissions.ts'
import { SocketSink } from './watch-socket.ts'
import { WatchSockets } from './watch-sockets.ts'
import { codecOf, type StreamForm, StreamSink } from './watch-stream.ts'

export const watchApiDefaults = Object.freeze({
  /** Milliseconds for clients to complete the close of a WebSocket while the server drains. Dead clients never do. */
  closeMs: 5_000,
})

const overWebSocket: WatchTransport = Object.freeze({ bookmarksByDefault: true })

/** The collection or object that a client watches, and the query of its request. */
interface WatchTarget extends Pick<ResourceRequest, 'served' | 'path' | 'query' | 'target'> {
  /** The form of objects in its events, if it is not their own. */
  readonly view?: ObjectView
}

/** A subscription that a client asks for on a WebSocket of many watches. */
interface SubscriptionRequest {
  readonly path: string
  /** The header of the handshake. */
  readonly accept: string | undefined
  /** Aborted when the client unsubscribes or leaves. */
  readonly signal: AbortSignal
  readonly audit: AuditedRequest | undefined
}

interface WatchApiParts {
  readonly api: ResourceApi
  readonly hub: WatchHub
  readonly connections: WatchConnections
  readonly access: Pick<Access, 'onRevoked'>
  readonly audit?: AuditLog
  readonly authorizer: Authorizer
  readonly queues: RequestQueues
  readonly toApiError: (thrown: unknown) => ApiError
  readonly paths: Paths
}

/** The watches of clients, over WebSocket, chunked HTTP and Server-Sent Events. */
export class WatchApi {
  readonly #parts: WatchApiParts
  readonly #sockets = new WatchSockets()
  readonly #permissions: WatchPermissions
  readonly #turns = new Turns(socketDefaults.pace)
  readonly #multiplexed = new Set<WatchConnection>()

  constructor(parts: WatchApiParts) {
    this.#parts = parts
    this.#permissions = new WatchPermissions(parts.authorizer)
  }

  /** Serves a watch over plain HTTP. @throws ApiError before the first event */
  async stream(
    target: WatchTarget,
    response: ServerResponse,
    form: StreamForm,
    identity: Identity,
    lastEventId: string | undefined,
  ): Promise<void> {
    const { hub } = this.#parts
    const stay = this.#enter(identity)
    response.once('close', () => stay.leave())
    try {
      const events = form === 'events'
      const transport = { bookmarksByDefault: events, ...(events && { lastEventId }) }
      const codec = await codecOf(form)
      const { cache, request, present } = await this.#admit(stay, target, transport)
      // 'close' has been emitted already: the watch would never end.
      if (response.destroyed) return
      stay.check()
      warn(target, response)
      const open = (onEnd: () => void) =>
        hub.open(cache, request, sinkFor(target, new StreamSink(response, form, codec)), present, {
          caller: stay.payer,
          onEnd,
        })
      const watch = this.#permitted(identity, target, open)
      stay.onRevoked = () => watch.revoke()
      response.on('drain', () => watch.drained())
      response.on('close', () => watch.close())
    } catch (error) {
      stay.leave()
      throw error
    }
  }

  /** Upgrades to a WebSocket of one watch. @throws ApiError before the upgrade */
  async upgrade(target: WatchTarget, handshake: HandshakeResponse, identity: Identity): Promise<void> {
    const stay = this.#enter(identity)
    handshake.connectionSocket.once('close', () => stay.leave())
    try {
      await this.#sockets.load()
      const { cache, request, present } = await this.#admit(stay, target, overWebSocket)
      stay.check()
      this.#permissions.check(identity, target.target)
      warn(target, handshake)
      const connection = this.#sockets.accept('single', handshake)
      if (connection === undefined) return
      const sink = sinkFor(target, new SocketSink(connection))
      const open = (onEnd: () => void) =>
        this.#parts.hub.open(cache, request, sink, present, { caller: stay.payer, onEnd })
      const watch = this.#permitted(identity, target, open)
      stay.onRevoked = () => watch.revoke()
      connection.onDrained(() => watch.drained())
      connection.onClose(() => watch.close())
    } catch (error) {
      stay.leave()
      throw error
    }
  }

  /**
   * Upgrades to a WebSocket of many watches. All of them send the form of objects that the handshake accepts.
   * @throws ApiError before the upgrade
   */
  async multiplex(handshake: HandshakeResponse, identity: Identity): Promise<void> {
    await this.#sockets.load()
    const { connectionSocket: socket, req } = handshake
    // 'close' has been emitted already: the stay would never end.
    if (socket.destroyed) return
    const stay = this.#enter(identity)
    socket.once('close', () => stay.leave())
    const connection = this.#sockets.accept('multiplexed', handshake)
    if (connection === undefined) return
    stay.onRevoked = () => connection.close(revoked)
    const { remoteAddress } = socket
    const headers = { ...req.headers, 'audit-id': undefined }
    const open = async (path: string, sink: WatchSink, signal: AbortSignal) => {
      const audit = this.#parts.audit?.begin({ uri: path, headers, remoteAddress })
      try {
        const asked = { path, accept: headers.accept, signal, audit }
        return await this.#subscribe(stay, identity, asked, sink, socket)
      } catch (error) {
        audit?.completed(auditOutcomeOf(error, signal))
        throw error
      }
    }
    const { toApiError } = this.#parts
    new WatchMultiplexer({ connection, turns: this.#turns, caller: stay.payer, open, toApiError })
    this.#multiplexed.add(connection)
    connection.onClose(() => this.#multiplexed.delete(connection))
  }

  /** Rejects new watches, and ends the open ones within the time. Destroys the sockets that are open after that. */
  async drain(graceMs: number): Promise<void> {
    await this.#parts.hub.drain(graceMs)
    for (const connection of this.#multiplexed) connection.close(goingAway)
    setTimeout(() => this.close(), watchApiDefaults.closeMs).unref()
  }

  /** Destroys all sockets that are still open. */
  close(): void {
    this.#permissions.close()
    this.#sockets.close()
  }

  async #subscribe(
    stay: Stay,
    identity: Identity,
    { path: uri, accept, signal, audit }: SubscriptionRequest,
    sink: WatchSink,
    connection: Socket,
  ): Promise<Watch> {
    const { api, hub, authorizer, paths, queues } = this.#parts
    const { path, query } = splitTarget(uri)
    // Subscriptions may omit the base path.
    const below = paths.belowBase(path) ?? path
    const info = await passChecks({
      audit,
      authenticate: () => identity,
      impersonate: caller => caller,
      read: () => readFresh(() => asWatch(paths.read('GET', below, query)), api.definitions),
      turn(info) {
        const party = partyOf(classOf(info), identity, connection)
        return queues.passes(party) ? undefined : queues.wait(party, () => signal.aborted)
      },
      grantOf: ({ user }, { verb, target }) => authorizer.grantOf(user, verb, target),
      catchUp: () => api.catchUp(),
    })
    const found = watchable(info, path, below)
    hub.checkOpen()
    const { view } = negotiateObject(accept, found, ['application/json'])
    const { cache, request, present, release } = await this.#admit(stay, found, overWebSocket, signal)
    const open = (onEnd: () => void) => {
      const ended = () => {
        release()
        onEnd()
        audit?.completed({ code: 200 })
      }
      return hub.open(cache, request, sinkFor({ view }, sink), present, { caller: stay.payer, onEnd: ended })
    }
    try {
      const watch = this.#permitted(identity, found, open)
      audit?.started(200)
      return watch
    } catch (error) {
      release()
      throw error
    }
  }

  /** Opens a watch, which ends when its caller may no longer watch. @throws ApiError 403 */
  #permitted(identity: Identity, target: WatchTarget, open: (onEnd: () => void) => Watch): Watch {
    let watch: Watch | undefined
    const permission = this.#permissions.hold(identity, target.target, error => watch?.forbid(error))
    watch = open(permission)
    return watch
  }

  /** @throws ApiError 401, 429, 503 */
  #enter(identity: Identity): Stay {
    const { hub, connections, access } = this.#parts
    hub.checkOpen()
    const payer = payerOf(identity)
    return new Stay(payer, connections.admit(payer), revoked => access.onRevoked(identity, revoked))
  }

  /** Counts a watch of a connection, until `release` is called or the connection closes. */
  async #admit(
    stay: Stay,
    { served, path, query }: WatchTarget,
    transport: WatchTransport,
    signal?: AbortSignal,
  ): Promise<{ cache: ModelCache; request: WatchRequest; present: Revision; release: () => void }> {
    const { api } = this.#parts
    const cache = api.cacheOf(api.presentKind(served, path))
    const request = readWatchRequest(cache, path, query, transport)
    const release = stay.place.subscribe(request.selector)
    const { hub } = this.#parts
    try {
      const present = await hub.admit(cache, request, signal)
      // A server that has started to drain meanwhile does not end new watches.
      hub.checkOpen()
      signal?.throwIfAborted()
      return { cache, request, present, release }
    } catch (error) {
      release()
      throw error
    }
  }
}

function sinkFor({ view }: Pick<WatchTarget, 'view'>, sink: WatchSink): WatchSink {
  return view === undefined ? sink : new ViewSink(sink, view)
}

/** Sets the Warning header for a watch of a deprecated version. */
function warn({ served, path }: WatchTarget, response: ServerResponse): void {
  const { warning } = served.versionAt(path)
  if (warning !== undefined) response.setHeader('warning', warningHeaders([warning]).map(headerBytes))
}

/** A connection with watches, from its admission to its end. */
class Stay {
  /** Called when its credentials become invalid. */
  onRevoked: () => void = () => {}
  #isRevoked = false
  /** Whose turns its watches take (`payerOf`). */
  readonly payer: string
  readonly place: WatchPlace
  readonly #stopListening: () => void

  constructor(payer: string, place: WatchPlace, listen: (revoked: () => void) => () => void) {
    this.payer = payer
    this.place = place
    this.#stopListening = listen(() => {
      this.#isRevoked = true
      this.onRevoked()
    })
  }

  /** Must be called before the first event is sent. @throws ApiError 401 */
  check(): void {
    if (this.#isRevoked) throw new ApiError('Unauthorized', revoked.reason)
  }

  /** Idempotent. */
  leave(): void {
    this.#stopListening()
    this.place.leave()
  }
}
