import {
  decodeAuthenticate,
  decodeRange,
  decodeTxn,
  encodeAuthenticate,
  encodeCompaction,
  encodeRange,
  encodeTxn,
} from './messages.ts'

/** A method with one answer. Messages of requests have gRPC's prefix, those of answers have it no more. */
export interface UnaryMethod<Request, Response> {
  /** `/<package>.<service>/<method>` */
  readonly path: string
  readonly encode: (request: Request) => Buffer
  readonly decode: (message: Buffer) => Response
}

function method<Request, Response>(
  path: string,
  encode: (request: Request) => Buffer,
  decode: (message: Buffer) => Response,
): UnaryMethod<Request, Response> {
  return Object.freeze({ path: `/etcdserverpb.${path}`, encode, decode })
}

/** The methods of etcd that are in use. */
export const rpc = Object.freeze({
  range: method('KV/Range', encodeRange, decodeRange),
  txn: method('KV/Txn', encodeTxn, decodeTxn),
  compact: method('KV/Compact', encodeCompaction, () => undefined),
  /** Answers a token. */
  authenticate: method('Auth/Authenticate', encodeAuthenticate, decodeAuthenticate),
})

/** Of the one with many answers, see `encodeWatchCreate` and `decodeWatch`. */
export const watchPath = '/etcdserverpb.Watch/Watch'
