import type { UserInfo } from '../api/hooks.ts'

/** One request to a Setpoint API server. */
export interface TransportRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Path and query below the server's base path, for example `/apis/demo.example.com/v1/gadgets?size=20`. */
  readonly path: string
  /** Lower-case names. */
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  /** For whom the request is, see `Client.as`. Default: the owner of the transport. */
  readonly user?: UserInfo
  readonly signal?: AbortSignal
}

/** The response to one request. */
export interface TransportResponse {
  /** HTTP status code. Responses of any status resolve. */
  readonly status: number
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** How a watch closed: a WebSocket close code (`closeCodes`; 1006 for a lost connection) and its reason. */
export interface WatchEnd {
  readonly code: number
  readonly reason: string
}

/**
 * One open watch. The iteration yields each event's JSON text in order and returns when the watch has closed. Leaving
 * the iteration, or aborting, closes the watch.
 */
export interface WatchConnection extends AsyncIterable<string> {
  /** Resolves when the watch has closed; never rejects. */
  readonly end: Promise<WatchEnd>
  close(): void
}

/**
 * Carries requests and watches: over HTTP and WebSocket, or by direct calls inside the server's process. Plugins behave
 * the same over both.
 */
export interface Transport {
  /** @throws TransportError if no response arrives; the outcome of the request is then unknown. */
  request(request: TransportRequest): Promise<TransportResponse>

  /**
   * Opens a watch on a collection or an object; `path` includes the query.
   * @throws ApiError if the server refuses, TransportError if it cannot be reached.
   */
  watch(path: string, options: WatchRequestOptions): Promise<WatchConnection>
}

/** Options for opening a watch. */
export interface WatchRequestOptions {
  readonly signal: AbortSignal
  /** Lower-case names, sent with the upgrade request. */
  readonly headers?: Readonly<Record<string, string>>
  /** For whom the watch is, see `Client.as`. Default: the owner of the transport. */
  readonly user?: UserInfo
}

/** The server could not be reached, or the connection broke before the response was complete. */
export class TransportError extends Error {
  override readonly name = 'TransportError'
}
