import { CompactedError, FutureRevisionError, StoreFullError, StoreUnavailableError } from '../contract.ts'

/** The gRPC status codes that are told apart here. */
export const grpcStatus = Object.freeze({
  ok: 0,
  cancelled: 1,
  invalidArgument: 3,
  deadlineExceeded: 4,
  notFound: 5,
  permissionDenied: 7,
  resourceExhausted: 8,
  failedPrecondition: 9,
  outOfRange: 11,
  unimplemented: 12,
  internal: 13,
  unavailable: 14,
  unauthenticated: 16,
})

/** A call to etcd that did not end with an answer. Stays inside this folder; see `toStorageError`. */
export class CallError extends Error {
  override readonly name = 'CallError'
  /** gRPC status code. */
  readonly code: number
  readonly endpoint: string
  /** Whether the request certainly never left this process. */
  readonly unsent: boolean

  constructor(
    code: number,
    details: string,
    endpoint: string,
    options?: ErrorOptions & { readonly unsent?: boolean },
  ) {
    super(details, options)
    this.code = code
    this.endpoint = endpoint
    this.unsent = options?.unsent ?? false
  }

  /** Whether the connection or the member is at fault, so that another member may do better. */
  get lost(): boolean {
    return this.code === grpcStatus.unavailable || this.code === grpcStatus.deadlineExceeded
  }

  /**
   * Whether it was for want of a leader. The members are there, and elect one within a second or two; what was proposed
   * meanwhile is gone or not.
   */
  get leaderless(): boolean {
    return leaderlessTexts.test(this.message)
  }

  /**
   * Whether the call certainly did not change anything and no longer can: unsent, or refused by etcd before it was
   * applied. "leader changed", "request timed out" and "proposal dropped" are not among them: those were proposed. "no
   * leader" is what a member answers to a call that asks for one (see `Connection`), before it looks at the request.
   */
  get refused(): boolean {
    if (this.unsent || refusingCodes.has(this.code) || noLeaderText.test(this.message)) return true
    return this.code === grpcStatus.resourceExhausted && refusingTexts.test(this.message)
  }

  /** Whether etcd no longer accepts the token of the connection. */
  get staleToken(): boolean {
    return /invalid auth token|revision of auth store is old/.test(this.message)
  }
}

const noLeaderText = /^etcdserver: no leader$/
const leaderlessTexts =
  /no leader|leader changed|request timed out|proposal dropped|not leader|leader failure/
const refusingCodes: ReadonlySet<number> = new Set([
  grpcStatus.invalidArgument,
  grpcStatus.notFound,
  grpcStatus.permissionDenied,
  grpcStatus.failedPrecondition,
  grpcStatus.outOfRange,
  grpcStatus.unimplemented,
  grpcStatus.unauthenticated,
])
const noSpaceText = /database space exceeded/
const tooLargeTexts = /request is too large|message larger than max/
const refusingTexts = new RegExp(`${noSpaceText.source}|too many requests|${tooLargeTexts.source}`)

/** What callers of the storage see. For a transaction only once it is known that it did not happen. */
export function toStorageError(error: CallError): Error {
  const { code, message } = error
  const options = { cause: error }
  if (code === grpcStatus.outOfRange) {
    if (message.includes('compacted')) return new CompactedError(message)
    if (message.includes('future revision')) return new FutureRevisionError(message)
  }
  if (code === grpcStatus.resourceExhausted && noSpaceText.test(message))
    return new StoreFullError(message, options)
  if (tooLargeTexts.test(message)) return new RangeError(message, options)
  if (code === grpcStatus.invalidArgument && /too many operations|duplicate key/.test(message))
    return new RangeError(message, options)
  return new StoreUnavailableError(`etcd at ${error.endpoint}: ${message}`, options)
}
