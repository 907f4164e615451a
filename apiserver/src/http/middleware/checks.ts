import { ApiError } from '@setpoint/controller-runtime/api'
import { timed } from '../../registry/index.ts'
import type { RequestQueues } from '../../scheduling/index.ts'
import {
  type Authorizer,
  type Grant,
  type Identity,
  type ImpersonatingAccess,
  payerOf,
} from '../../security/index.ts'
import { headerOf } from '../api-request.ts'
import { type CheckedRequest, passChecks } from '../checks.ts'
import { readFresh } from '../fresh-kinds.ts'
import { HandshakeResponse } from '../handshake-response.ts'
import type { Paths } from '../paths.ts'
import { checkTimeout, readBoolean } from '../query-parameters.ts'
import { asWatch, nothingServed, type RequestInfo } from '../request-info.ts'
import { classOf, partyOf, RequestSeat } from '../request-seat.ts'
import type { Context, Middleware } from '../request-state.ts'
import type { ResourceApi } from '../resource-api.ts'

/** A plugin's client sends the name of the plugin in this header. */
const pluginHeader = 'x-setpoint-plugin'

interface ChecksParts {
  readonly access: Pick<ImpersonatingAccess, 'authenticate' | 'impersonate'>
  readonly paths: Paths
  readonly api: Pick<ResourceApi, 'definitions' | 'catchUp'>
  readonly queues: RequestQueues
  readonly authorizer: Pick<Authorizer, 'grantOf'>
}

/** Identifies the caller, reads what the request asks for, waits for its turn, and authorizes it. */
export function checks(parts: ChecksParts): Middleware {
  return (ctx, next) => {
    const passed = passChecks(new HttpRequest(ctx, parts))
    const served = passed instanceof Promise ? passed.then(next) : next()
    const mayHaveSeat = passed instanceof Promise || ctx.state.seat !== undefined
    return mayHaveSeat ? served.finally(() => ctx.state.seat?.leave()) : served
  }
}

/** A request over HTTP, or a handshake. Keeps what it learns in the context. */
class HttpRequest implements CheckedRequest<RequestInfo> {
  readonly #ctx: Context
  readonly #parts: ChecksParts

  constructor(ctx: Context, parts: ChecksParts) {
    this.#ctx = ctx
    this.#parts = parts
  }

  get audit(): Context['state']['audit'] {
    return this.#ctx.state.audit
  }

  authenticate(): Identity | Promise<Identity> {
    return this.#parts.access.authenticate(this.#ctx.req)
  }

  impersonate(caller: Identity): Identity {
    const { state, req } = this.#ctx
    state.identity = caller
    const identity = this.#parts.access.impersonate(caller, req.headers)
    state.identity = identity
    const plugin = headerOf(req.headers, pluginHeader) || undefined
    state.caller = { user: identity.user, payer: payerOf(identity), plugin }
    return identity
  }

  read(): RequestInfo | Promise<RequestInfo> {
    const { state, method, res } = this.#ctx
    const { target, path } = state
    if (path === undefined) throw nothingServed(target.path)
    const { paths, api } = this.#parts
    const read = () =>
      res instanceof HandshakeResponse
        ? asWatch(paths.read('GET', path, target.query))
        : paths.read(method, path, target.query)
    const info = readFresh(read, api.definitions)
    return info instanceof Promise ? info.then(each => this.#keep(each)) : this.#keep(info)
  }

  #keep(info: RequestInfo): RequestInfo {
    const { state, method } = this.#ctx
    const { record } = state
    state.info = info
    if (info.served === undefined) return info
    const scope = info.path.name === undefined ? 'collection' : 'object'
    record.setTarget(info.served, info.path.version, info.verb === 'watch' ? 'watch' : scope)
    if (info.query.size === 0) return info
    checkTimeout(info.query)
    // Also rejects a malformed value.
    if (readBoolean(info.query, 'watch') === true && info.verb !== 'watch')
      throw new ApiError('BadRequest', `watch is for GET, not for ${method}`)
    return info
  }

  turn(info: RequestInfo, identity: Identity): Promise<void> | undefined {
    const { req, state } = this.#ctx
    const { queues } = this.#parts
    const { socket } = req
    const party = partyOf(classOf(info), identity, socket)
    // Most clients that have closed their half are gone, so they take no turn from others.
    const hasLeft = () => socket.destroyed || socket.readableEnded
    // The deletion of a collection waits again before each object.
    if (hasBody(req) || info.verb === 'deletecollection') {
      state.seat = new RequestSeat(queues, party, hasLeft, state.record)
      return state.seat.enter()
    }
    return queues.passes(party) ? undefined : timed(state.record, 'queueMs', queues.wait(party, hasLeft))
  }

  grantOf({ user }: Identity, { verb, target }: RequestInfo): Grant | undefined {
    return this.#parts.authorizer.grantOf(user, verb, target)
  }

  catchUp(): Promise<unknown> {
    return timed(this.#ctx.state.record, 'storeMs', this.#parts.api.catchUp())
  }
}

function hasBody({ headers }: Context['req']): boolean {
  return (headers['content-length'] ?? '0') !== '0' || headers['transfer-encoding'] !== undefined
}
