import { type KeysOf, refuseUnknownKeys } from '../api/known-keys.ts'
import type { Clock } from '../clock.ts'

/** Limits and timeouts of requests and watches. */
export const httpTransportDefaults = Object.freeze({
  /** Fails a request after this long without a byte in either direction. The server itself responds 504 earlier. */
  requestTimeoutMs: 60_000,
  /** Closes a watch after this long without a ping or an event. The server pings every 25 s, so two may be lost. */
  watchIdleTimeoutMs: 60_000,
  /** Time to connect and upgrade a watch. */
  handshakeTimeoutMs: 15_000,
  /** Connections to the server; further requests wait. */
  maxSockets: 64,
  /** Bytes of one response: a list of 100,000 ordinary objects is 80 MB; a JavaScript string holds at most 512 MB. */
  maxResponseBytes: 256 * 1024 * 1024,
  /** Bytes of one event: an object is at most 3 MiB when sent, and the server may add to it. */
  maxEventBytes: 16 * 1024 * 1024,
  /** Frames of a watch that are buffered before the socket is paused. */
  frameQueueLength: 1_000,
  /** Time for the closing handshake of a watch before the socket is destroyed. */
  closeTimeoutMs: 1_000,
  /** Bytes read of the body of a refused upgrade. */
  maxRefusalBytes: 1024 * 1024,
})

/** TLS of the connections to the server, in PEM format. */
export interface HttpTransportTls {
  /** CA certificates for the server's certificate. Default: those of Node. */
  readonly ca?: string | undefined
  readonly cert?: string
  readonly key?: string
}

/** The server, credentials and timeouts. */
export interface HttpTransportOptions {
  /** `http://` or `https://`, host, port, and the server's base path if it has one. */
  readonly server: string | URL
  /** Bearer token, or a function that returns the current one. */
  readonly token?: string | (() => string | Promise<string>)
  /** Sent with every request. Lower-case names. */
  readonly headers?: Readonly<Record<string, string>>
  /** Or a function that returns the current ones, which new connections use. */
  readonly tls?: HttpTransportTls | (() => HttpTransportTls)
  /** Default `httpTransportDefaults.requestTimeoutMs`, and so on for the next two. */
  readonly requestTimeoutMs?: number
  readonly watchIdleTimeoutMs?: number
  readonly handshakeTimeoutMs?: number
  readonly clock?: Clock
}

const optionKeys: KeysOf<HttpTransportOptions> = {
  server: true,
  token: true,
  headers: true,
  tls: true,
  requestTimeoutMs: true,
  watchIdleTimeoutMs: true,
  handshakeTimeoutMs: true,
  clock: true,
}
const tlsKeys: KeysOf<HttpTransportTls> = { ca: true, cert: true, key: true }

/** @throws TypeError for an unknown option. */
export function checkHttpTransportOptions(options: HttpTransportOptions): void {
  refuseUnknownKeys(options, optionKeys, 'the options of HttpTransport')
  if (typeof options.tls === 'object') refuseUnknownKeys(options.tls, tlsKeys, 'tls of HttpTransport')
}
