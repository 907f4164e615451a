/** One request to a Setpoint API server, independent of how it gets there. */
export interface TransportRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Path and query below the server's base path, for example `/apis/demo.example.com/v1/gadgets?size=20`. */
  readonly path: string
  /** Lower-case names. */
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  readonly signal?: AbortSignal
}

/** The answer to one request. */
export interface TransportResponse {
  /** HTTP status code; an answer of any code resolves. */
  readonly status: number
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** How a watch ended: a WebSocket close code (`closeCodes`; 1006 for a lost connection) and its reason. */
export interface WatchEnd {
  readonly code: number
  readonly reason: string
}

/**
 * One open watch. The iteration yields each event's JSON text in order and returns when the watch has ended; `end`
 * then says how. Leaving the iteration, or aborting, closes the watch.
 */
export interface WatchConnection extends AsyncIterable<string> {
  /** Settled when the watch has ended; never rejects. */
  readonly end: Promise<WatchEnd>
  close(): void
}

/**
 * The way to a server: HTTP and WebSocket from outside, a direct call inside the server's own process. A plugin does
 * not notice which it has.
 */
export interface Transport {
  /** @throws TransportError when no answer came; whether the request was carried out is then unknown. */
  request(request: TransportRequest): Promise<TransportResponse>

  /**
   * Opens a watch on a collection or a name; `path` has the query.
   * @throws ApiError when the server refused it, TransportError when it could not be reached.
   */
  watch(path: string, options: WatchRequestOptions): Promise<WatchConnection>
}

/** How a watch is opened. */
export interface WatchRequestOptions {
  readonly signal: AbortSignal
  /** Lower-case names, sent with the upgrade. */
  readonly headers?: Readonly<Record<string, string>>
}

/** The server could not be reached, or the connection broke before the answer was complete. */
export class TransportError extends Error {
  override readonly name = 'TransportError'
}
