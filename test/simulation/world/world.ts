import type { Model } from '@setpoint/controller-runtime'
import type { Fault } from './fault.ts'

export interface WorldOptions {
  /** Decides everything: delays, order, identities, the bytes at which connections break. */
  readonly seed: number
  /** API servers, which have the numbers 0 to `servers - 1`. Default 2. */
  readonly servers?: number
  /** Processes with controllers and the collector, which elect a leader. Default 0. */
  readonly controllers?: number
  /** The releases of the plugin whose kinds every server serves. Servers begin with the first one. */
  readonly releases: readonly Release[]
  /** Keeps the whole trace instead of its last lines. Default false. */
  readonly keepTrace?: boolean
}

/**
 * Servers, controllers, clients, a network and a store in one process, on simulated time.
 *
 * Time passes only in `advance` and `settle`. What a client does is an async function that awaits `request`, `sleep` and
 * the messages of a watch: start it, then let time pass. It must not await anything real. Everything that happens is a
 * function of the seed, of the options and of the calls of this interface.
 */
export interface World extends AsyncDisposable {
  readonly random: SeededRandom
  /** Simulated milliseconds since the start. */
  now(): number
  /** Resolves after simulated time, whether or not faults are injected. */
  sleep(ms: number): Promise<void>
  /** Adds a line to the trace. It gets the time in front. */
  trace(line: string): void
  /** The lines of the trace: all of them, or the last ones. */
  readonly lines: readonly string[]
  /** A hash of all lines so far, also of those that were dropped. */
  readonly traceHash: string
  /**
   * Sends a request over a connection of the client. `body` is sent as JSON, unless it is a string.
   * @throws ConnectionLost if the connection cannot be opened or breaks; a write may then have happened or not.
   */
  request(client: string, server: number, request: WorldRequest): Promise<WorldResponse>
  /** Opens a watch: `path` has the query of a watch with `watch=true`. */
  watch(client: string, server: number, path: string, options?: WatchOptions): WorldWatch
  /**
   * Replaces the tokens that servers know, which each server notices within `tokensMs`, or at its start. Requests without
   * a token may do everything; others send it as `authorization: Bearer <token>`, and do what roles allow their user.
   */
  setTokens(tokens: readonly WorldToken[]): void
  inject(fault: Fault): void
  /**
   * Ends all faults but pauses, and starts the servers and controllers that were killed. What is under way stays late.
   * Returns when the last of it is over.
   */
  heal(): number
  /** Lets simulated time pass. @throws Error if a part of the world failed in a way that no fault explains */
  advance(ms: number): Promise<void>
  /**
   * Lets time pass until no key of the store has changed for two seconds, except for leases that are renewed, and all
   * servers are ready and have seen the last revision. Returns false if that takes more than `maxMs`.
   */
  settle(maxMs: number): Promise<boolean>
  /** The truth, for judges. */
  readonly store: StoreTruth
  /** The tokens that were set, and when. */
  readonly tokens: readonly { readonly at: number; readonly tokens: readonly WorldToken[] }[]
  /** When servers stood still. */
  readonly pauses: readonly { readonly server: number; readonly at: number; readonly until: number }[]
  /** When servers were started. */
  readonly starts: readonly { readonly at: number; readonly server: number }[]
  /** Returns true if the server runs, has started and is not paused. */
  isReady(server: number): boolean
  /** Installs a release of the plugin on a server, and reloads the plugin if the server runs. */
  reload(server: number, release: number): void
  /** Which releases servers may have served, and when. */
  readonly served: readonly ServedRelease[]
  /** Everything that a part of the world reported and that no judge may ignore: uncaught errors, broken invariants. */
  readonly failures: readonly Error[]
  /** The writes of controllers, also of those in servers, in the order of their times for each process. */
  readonly leaderWrites: readonly LeaderWrite[]
  /** What each server holds that runs. */
  readonly held: readonly Held[]
  /** Figures for measurements. */
  readonly counts: WorldCounts
  close(): Promise<void>
}

/** A write that a process of controllers has sent, and that only the leader may send. */
export interface LeaderWrite {
  readonly at: number
  /** Of the process, in the lease. */
  readonly identity: string
  readonly path: string
}

/** What a server holds for requests and watches. */
export interface Held {
  readonly server: number
  /** Connections of clients and controllers. */
  readonly sockets: number
  readonly watches: number
  /** Connections that carry watches. */
  readonly watchConnections: number
  /** Requests under way, and those of them that wait for their turn. */
  readonly requests: number
  readonly waiting: number
  /** Bytes of request bodies. */
  readonly bodyBytes: number
  /** Timers, and everything else that is to happen in the process. */
  readonly events: number
}

/** Randomness from the seed. */
export interface SeededRandom {
  /** A number in [0, 1). */
  next(): number
  /** An integer in [min, max]. */
  int(min: number, max: number): number
  /** True with this probability. */
  chance(probability: number): boolean
  /** One of the items, which must not be empty. */
  pick<T>(items: readonly T[]): T
  bytes(count: number): Buffer
  /** A source of its own: what is drawn from it does not change what is drawn from this one. */
  fork(name: string): SeededRandom
}

/** Returns the models of a release. Called at each load, so that their functions may differ, as those of modules do. */
export type Release = () => readonly Model[]

/** A release that a process of a server has loaded. During a reload there are two. */
export interface ServedRelease {
  readonly server: number
  readonly release: number
  readonly from: number
  /** Infinite while it serves. */
  readonly until: number
}

export interface WorldRequest {
  readonly method: string
  /** With the query, such as `/apis/x.dev/v1/widgets?limit=3`. */
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: unknown
}

export interface WorldResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  /** Parsed if it is JSON, otherwise text. */
  readonly body: unknown
}

/**
 * A WebSocket of one watch, a line for each message over HTTP, Server-Sent Events, or a WebSocket that the client's watches
 * of one server share.
 */
export type WatchTransport = 'socket' | 'lines' | 'events' | 'shared'

export interface WatchOptions {
  readonly headers?: Readonly<Record<string, string>>
  /** Default: `socket`. */
  readonly over?: WatchTransport | undefined
}

/** The messages of a watch, each one parsed. Ends when the stream ended or broke; `end` then says how. */
export interface WorldWatch extends AsyncIterable<unknown> {
  /** Undefined while the watch is open. The status is that of a refusal. */
  readonly end:
    | { readonly type: 'ended' | 'lost' | 'closed' }
    | { readonly type: 'refused'; readonly status: number; readonly body: unknown }
    | undefined
  close(): void
}

/** A connection could not be opened, or broke before the response was complete. */
export class ConnectionLost extends Error {
  override readonly name = 'ConnectionLost'
}

/** A token, and the user whose it is. */
export interface WorldToken {
  readonly token: string
  readonly user: string
  /** Besides `system:authenticated`. */
  readonly groups?: readonly string[]
}

/** The longest time, in milliseconds, until a server that runs notices other tokens. */
export const tokensMs = 1_000

/** Who commits what a restore puts and deletes. */
export const restorer = 'restore'

export interface StoredValue {
  readonly value: Buffer
  readonly modRevision: number
  readonly createRevision: number
}

/** One transaction that changed the store. */
export interface Commit {
  readonly revision: number
  /** Simulated time. */
  readonly atMs: number
  /** The node that sent it, such as `server-0`, or `restorer`. */
  readonly by: string
  /** True if it happened when its sender had died, or had given up waiting for the result. */
  readonly isLate: boolean
  readonly changes: readonly { readonly key: string; readonly value: Buffer | undefined }[]
}

/** What the store really contains and contained. Compaction does not concern it. */
export interface StoreTruth {
  /** The last revision. */
  readonly revision: number
  /**
   * All commits since the world began, or since the files of an earlier store were put back, in order. A restore deletes
   * everything and puts what the backup had.
   */
  readonly commits: readonly Commit[]
  /** Counts the restores. */
  readonly life: number
  /** The state after a revision. */
  at(revision: number): ReadonlyMap<string, StoredValue>
  /** Remembers the present state for a fault `restore`; returns its number. */
  backUp(): number
}

export interface WorldCounts {
  /** Simulated events that were run: timers, deliveries, responses of the store. */
  readonly events: number
  readonly requests: number
  readonly commits: number
}
