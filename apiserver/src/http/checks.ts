import type { AuditedRequest, AuditTarget } from '../audit/index.ts'
import { forbidden, type Grant, type Identity } from '../security/index.ts'

/** What is asked: the verb and what it is about. */
interface Asked {
  readonly verb: string
  readonly target: AuditTarget
  /** True if the objects have secrets. */
  readonly isSensitive: boolean
}

/**
 * A request, on any way into the server: over HTTP, a WebSocket handshake, a subscription on a WebSocket, a client in
 * this process, or a write of the server itself. Its methods are called once each, in the order that `passChecks`
 * draws, except for `grantOf`.
 */
export interface CheckedRequest<Info extends Asked> {
  /** Undefined if requests are not audited. */
  readonly audit: AuditedRequest | undefined
  /** Throws or rejects with ApiError 401, 403 or 503. Returns a promise only if it must wait. */
  authenticate(): Identity | Promise<Identity>
  /** Returns the user that the caller acts for, or the caller. @throws ApiError 400, 403, 503 */
  impersonate(caller: Identity): Identity
  /** Reads what is asked. Returns a promise only if it must wait. @throws ApiError 400, 404, 503; URIError */
  read(): Info | Promise<Info>
  /** Waits for the request's turn. Returns undefined if it may go on at once. @throws ApiError 429, 504 */
  turn(info: Info, identity: Identity): Promise<void> | undefined
  /** Is called again before a refusal, once the roles have caught up. @throws ApiError 503 */
  grantOf(identity: Identity, info: Info): Grant | undefined
  /** Waits until the roles are as new as the store. By default, refusals do not wait. */
  catchUp?(): Promise<unknown>
}

/**
 * The checks of every request, in the one order in which they are made, and in which the audit log learns of them:
 *
 *     authenticate ─▶ impersonate ─▶ read ─▶ turn ─▶ authorize ─▶ served
 *       │ 401           │ 403         │ 400   │ 429    │ 403
 *
 * Whether anything is served at a path is told only after that, to callers who may know.
 *
 * Returns a promise only if the request must wait. Throws and rejects as the methods of the request; ApiError 403
 * without a grant.
 */
export function passChecks<Info extends Asked>(request: CheckedRequest<Info>): Promise<Info> | Info {
  const caller = request.authenticate()
  return caller instanceof Promise ? caller.then(each => passAs(request, each)) : passAs(request, caller)
}

function passAs<Info extends Asked>(request: CheckedRequest<Info>, caller: Identity): Promise<Info> | Info {
  const { audit } = request
  // The caller is recorded even if it may not impersonate.
  audit?.identified(caller)
  const identity = request.impersonate(caller)
  if (identity !== caller) audit?.identified(identity)
  const info = request.read()
  return info instanceof Promise
    ? info.then(each => passAsked(request, identity, each))
    : passAsked(request, identity, info)
}

function passAsked<Info extends Asked>(
  request: CheckedRequest<Info>,
  identity: Identity,
  info: Info,
): Promise<Info> | Info {
  request.audit?.setSubject(info)
  const turn = request.turn(info, identity)
  return turn === undefined
    ? authorized(request, identity, info)
    : turn.then(() => authorized(request, identity, info))
}

function authorized<Info extends Asked>(
  request: CheckedRequest<Info>,
  identity: Identity,
  info: Info,
): Promise<Info> | Info {
  const grant = request.grantOf(identity, info)
  if (grant !== undefined || request.catchUp === undefined) return decided(request, identity, info, grant)
  const again = () => decided(request, identity, info, request.grantOf(identity, info))
  // Another server may have acknowledged a role that is not known here yet. Without the store, the last known roles count.
  return request.catchUp().then(again, again)
}

function decided<Info extends Asked>(
  request: CheckedRequest<Info>,
  identity: Identity,
  info: Info,
  grant: Grant | undefined,
): Info {
  request.audit?.decided(grant)
  if (grant === undefined) throw forbidden(identity.user, info.verb, info.target)
  return info
}
