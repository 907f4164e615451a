import { status } from '@grpc/grpc-js'
import {
  CompactedError,
  FutureRevisionError,
  StoreFullError,
  StoreUnavailableError,
  WrongStoreError,
} from '../contract.ts'

/** A call to etcd that failed. Stays inside this folder; see `toStorageError`. */
export class CallError extends Error {
  override readonly name = 'CallError'
  /** gRPC status code. */
  readonly code: number
  /** Empty if the failure is not that of one member. */
  readonly endpoint: string
  /** True if the member belongs to another cluster than the one in use. */
  readonly wrongStore: boolean
  readonly #unsent: boolean

  constructor(
    code: number,
    details: string,
    endpoint: string,
    options?: ErrorOptions & { readonly unsent?: boolean; readonly wrongStore?: boolean },
  ) {
    super(details, options)
    this.code = code
    this.endpoint = endpoint
    this.wrongStore = options?.wrongStore ?? false
    this.#unsent = options?.unsent ?? false
  }

  /** Converts an error of gRPC. Any other error means that the response is unusable: the call may have happened. */
  static from(error: unknown, endpoint: string): CallError {
    if (error instanceof CallError) return error
    const { code, details, message }: { code?: unknown; details?: unknown; message?: unknown } =
      error instanceof Error ? error : { message: error }
    return typeof code === 'number'
      ? new CallError(code, String(details).replace(emptyNote, ''), endpoint, { cause: error })
      : new CallError(status.UNAVAILABLE, String(message), endpoint, { cause: error })
  }

  /** Names the member, for messages. */
  get place(): string {
    return this.endpoint === '' ? 'etcd' : `etcd at ${this.endpoint}`
  }

  /**
   * Returns true if the request certainly never left this process. The texts are grpc-js's. A text that it no longer
   * uses makes the request look sent, which is the safe side.
   */
  get unsent(): boolean {
    return this.#unsent || (this.code === status.UNAVAILABLE && unsentTexts.test(this.message))
  }

  /** Returns true if the connection or the member is at fault, so another member may respond. */
  get lost(): boolean {
    return lostCodes.has(this.code)
  }

  /** Returns true if the members have no leader. They elect one within a second or two. */
  get leaderless(): boolean {
    return leaderlessTexts.test(this.message)
  }

  /**
   * Returns true if the call changed nothing and never will: it was unsent, or etcd rejected it before applying it.
   * "leader changed", "request timed out" and "proposal dropped" do not count: etcd had proposed those. A member says
   * "no leader" before it looks at the request, because every call asks for a leader (see `EtcdClient`). `noSpace` does
   * not count either.
   */
  get refused(): boolean {
    if (this.unsent || refusingCodes.has(this.code) || noLeaderText.test(this.message)) return true
    return this.code === status.RESOURCE_EXHAUSTED && refusingTexts.test(this.message)
  }

  /**
   * Returns true if etcd is full. Usually nothing was changed, but etcd also responds so to the transactions that make
   * it full, which it has applied (`quotaApplierV3`).
   */
  get noSpace(): boolean {
    return this.code === status.RESOURCE_EXHAUSTED && noSpaceText.test(this.message)
  }

  /** Returns true if etcd no longer accepts the token. */
  get staleToken(): boolean {
    return /invalid auth token|revision of auth store is old/.test(this.message)
  }

  /** Returns true if the response was larger than `etcdDefaults.receiveBytes`. */
  get responseTooLarge(): boolean {
    return this.code === status.RESOURCE_EXHAUSTED && /^Received message larger/.test(this.message)
  }
}

const unsentTexts =
  /^(No connection established|Name resolution failed|Channel closed before call started|Stream refused by server)/
const noLeaderText = /^etcdserver: no leader$/
const leaderlessTexts =
  /no leader|leader changed|request timed out|proposal dropped|not leader|leader failure/
const lostCodes: ReadonlySet<number> = new Set([
  status.UNAVAILABLE,
  status.DEADLINE_EXCEEDED,
  status.INTERNAL,
])
/** Not `unimplemented`: grpc-js also uses it for a success without a message. */
const refusingCodes: ReadonlySet<number> = new Set([
  status.INVALID_ARGUMENT,
  status.NOT_FOUND,
  status.PERMISSION_DENIED,
  status.FAILED_PRECONDITION,
  status.OUT_OF_RANGE,
  status.UNAUTHENTICATED,
])
const noSpaceText = /database space exceeded/
/** Of the request: etcd's two texts, and grpc-js's. grpc-js reports a response over the limit as "Received message". */
const tooLargeTexts =
  /request is too large|^grpc: received message larger than max|^Attempted to send message with a size/
const refusingTexts = new RegExp(`too many requests|${tooLargeTexts.source}`)

/** What grpc-js appends to the reason of a failed connection. */
const emptyNote = /\.? *Resolution note: $/

/** Converts to an error of the contract. For a transaction, only once it is known that it did not happen. */
export function toStorageError(error: CallError): Error {
  const { code, message, noSpace, place } = error
  const options = { cause: error }
  if (code === status.OUT_OF_RANGE) {
    if (message.includes('compacted')) return new CompactedError(message)
    if (message.includes('future revision')) return new FutureRevisionError(message)
  }
  if (noSpace) return new StoreFullError(message, options)
  if (tooLargeTexts.test(message)) return new RangeError(message, options)
  if (code === status.INVALID_ARGUMENT && /too many operations|duplicate key/.test(message))
    return new RangeError(message, options)
  if (error.wrongStore) return new WrongStoreError(message, options)
  const hint = hints.find(([text]) => text.test(`${error.endpoint}: ${message}`))?.[1]
  return new StoreUnavailableError(`${place}: ${message}${hint === undefined ? '' : `; ${hint}`}`, options)
}

/** What to do about mistakes that do not end by themselves, by the texts of etcd, grpc-js and OpenSSL. */
const hints: readonly (readonly [RegExp, string])[] = [
  [/authentication failed/, 'check the user and the password of etcd'],
  [
    /user name is empty/,
    'etcd wants to know who calls: give --etcd-user with its password, or a client certificate with --etcd-cert',
  ],
  [
    /permission denied/,
    'the user of etcd needs the permission to read and write the keys below --etcd-prefix',
  ],
  [
    /unable to (verify|get local issuer)|self-signed certificate/,
    "give the authority of etcd's certificate with --etcd-ca",
  ],
  [
    // Without TLS etcd responds to the handshake, or closes the connection before that is read.
    /wrong version number|disconnected before secure TLS|^https:.*No connection established.*ECONNRESET/,
    'if etcd there does not use TLS, begin the endpoint with http://',
  ],
  [
    /certificate required|bad certificate|unknown ca|unknown certificate/,
    'etcd wants a client certificate of its authority: give it with --etcd-cert and --etcd-key',
  ],
  [
    /^http:.*(ECONNRESET|socket hang up|Failed to connect)/,
    'if etcd there uses TLS, begin the endpoint with https://',
  ],
]
