import type { RouterContext } from '@koa/router'
import type { Next } from 'koa'
import type { AuditedRequest } from '../audit/index.ts'
import type { ObjectView } from '../kubernetes/index.ts'
import type { RequestRecord } from '../metrics/index.ts'
import type { Identity } from '../security/index.ts'
import type { ApiResponse, Caller } from './api-request.ts'
import { HandshakeResponse } from './handshake-response.ts'
import type { RequestInfo } from './request-info.ts'
import type { RequestSeat } from './request-seat.ts'
import type { RequestTarget } from './request-target.ts'
import type { StreamForm } from './watch-stream.ts'

/**
 * What the middleware of the chain know of a request. Each field is set by the middleware that its comment names, and
 * exists in all that follow it.
 */
export interface RequestState {
  /** `counting` */
  record: RequestRecord
  /** `target` */
  target: RequestTarget
  /** The path below the base path, undefined outside of it: `target` */
  path: string | undefined
  /** Whether the response to a probe may say more than names: `openPaths` */
  mayReadDetails: boolean
  /** The caller alone if it may not impersonate the user: `checks` */
  identity: Identity
  /** `checks` */
  caller: Caller
  /** `checks` */
  info: RequestInfo
  /** Undefined for a request that needs only one turn and has no body: `checks` */
  seat: RequestSeat | undefined
  /** The form of a watch: `negotiation` */
  streamForm: StreamForm
  /** The form of objects in the response, if it is not their own: `negotiation` */
  view: ObjectView | undefined
  /** Undefined without an audit log: `auditing` */
  audit: AuditedRequest | undefined
  /** Texts of `Warning` headers from policies and webhooks: `objects` */
  warnings: string[] | undefined
  /** What `sending` sends. Koa sends `ctx.body` where it is undefined. */
  response: ApiResponse | undefined
}

export type Context = RouterContext<RequestState>

/** One step of the chain. A step that only passes a request on returns the promise of `next`: that costs least. */
export type Middleware = (ctx: Context, next: Next) => Promise<void>

/** Returns the status of the response, or undefined if there is none because the client has left. */
export function statusOf({ state, res, respond, status }: Context): number | undefined {
  if (state.response !== undefined) return state.response.status
  if (res instanceof HandshakeResponse && res.isTaken) return 101
  return res.headersSent || respond !== false ? status : undefined
}
