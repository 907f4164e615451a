import type { WriteNotes } from '../../registry/index.ts'
import { type Authorizer, authorizeAs } from '../../security/index.ts'
import { abortedByClose } from '../aborted-by-close.ts'
import type { ApiRequest } from '../api-request.ts'
import { rightsOf } from '../caller-rights.ts'
import type { ResourceRequest } from '../request-info.ts'
import { readBodyInTurn } from '../request-seat.ts'
import type { Context, Middleware } from '../request-state.ts'
import type { ResourceApi } from '../resource-api.ts'
import { withWarnings } from '../warning-headers.ts'

/** Reads and writes objects. */
export function objects(
  api: Pick<ResourceApi, 'handle'>,
  authorizer: Pick<Authorizer, 'authorize'>,
): Middleware {
  return async (ctx, next) => {
    const { info } = ctx.state
    if (info.served === undefined || info.verb === 'watch') return next()
    const response = await api.handle(info.served, new ObjectRequest(ctx, info, authorizer))
    const { warnings } = ctx.state
    ctx.state.response = warnings === undefined ? response : withWarnings(response, warnings)
  }
}

/**
 * The request for objects in a context. It is a class because of its getter: V8 keeps the properties of an object
 * literal with a getter in a dictionary, and allocates the reference to the getter in the old generation. So each
 * request would stay in memory until the next full garbage collection.
 */
class ObjectRequest implements ApiRequest, WriteNotes {
  readonly method: ApiRequest['method']
  readonly path: ApiRequest['path']
  readonly query: ApiRequest['query']
  readonly headers: ApiRequest['headers']
  readonly caller: ApiRequest['caller']
  readonly rights: ApiRequest['rights']
  readonly view: ApiRequest['view']
  readonly times: ApiRequest['times']
  readonly onDocument: ApiRequest['onDocument']
  readonly #ctx: Context
  readonly #authorizer: Pick<Authorizer, 'authorize'>
  #signal: AbortSignal | undefined

  constructor(
    ctx: Context,
    { served, path, query, verb }: ResourceRequest,
    authorizer: Pick<Authorizer, 'authorize'>,
  ) {
    const { req, method } = ctx
    const { caller, view, audit, record } = ctx.state
    this.method = method
    this.path = path
    this.query = query
    this.headers = req.headers
    this.caller = caller
    this.rights =
      verb === 'get' || verb === 'list'
        ? undefined
        : rightsOf(served, (verb, each) => authorizer.authorize(caller.user, verb, each))
    this.view = view
    this.times = record
    this.onDocument = audit?.onDocument
    this.#ctx = ctx
    this.#authorizer = authorizer
  }

  authorize(): void {
    const { identity, info } = this.#ctx.state
    if (info.served !== undefined) authorizeAs(this.#authorizer, identity, info.verb, info.target)
  }

  get notes(): WriteNotes {
    return this
  }

  warn(text: string): void {
    const { state } = this.#ctx
    state.warnings ??= []
    state.warnings.push(text)
  }

  annotate(key: string, value: string): void {
    this.#ctx.state.audit?.annotate(key, value)
  }

  get signal(): AbortSignal | undefined {
    // A request for one object is short, unless others write the same object.
    if (this.path.name !== undefined || this.method === 'POST') return undefined
    return this.whenGone()
  }

  whenGone(): AbortSignal {
    this.#signal ??= abortedByClose(this.#ctx.req, this.#ctx.res)
    return this.#signal
  }

  turn(): Promise<void> | undefined {
    return this.#ctx.state.seat?.enter()
  }

  readBody(): Promise<Buffer> {
    return readBodyInTurn(this.#ctx)
  }
}
