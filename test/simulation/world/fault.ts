import type { WorldToken } from './world.ts'

/**
 * Something that goes wrong, as data, so that a plan can be printed, shrunk and replayed. Nodes are `server-0`,
 * `controllers-0`, and the names of clients. Faults with `forMs` end by themselves; `heal` ends all but pauses.
 */
export type Fault =
  /** The process ends at once, as by SIGKILL: its memory is gone. It starts again after `forMs`, or with `restart`. */
  | { readonly type: 'kill'; readonly node: string; readonly forMs?: number }
  /** Starts a killed node; kills it first if it runs. */
  | { readonly type: 'restart'; readonly node: string }
  /** The process stands still, as by SIGSTOP, while its clock goes on. */
  | { readonly type: 'pause'; readonly node: string; readonly forMs: number }
  /** The wall clock jumps by `jumpMs`, and from now on both clocks run at `rate`, where 1 is right. */
  | { readonly type: 'clock'; readonly node: string; readonly jumpMs?: number; readonly rate?: number }
  /** Breaks the connections between two nodes (default: all of `node`), each after some of the bytes that are under way. */
  | { readonly type: 'cut'; readonly node: string; readonly other?: string }
  /** Breaks the next connection of `node` once it has carried this many more bytes towards it or from it. */
  | {
      readonly type: 'cutAfter'
      readonly node: string
      readonly direction: 'to' | 'from'
      readonly bytes: number
    }
  /** Nothing passes between two nodes; connections stay open, and what is under way arrives afterwards. */
  | { readonly type: 'partition'; readonly node: string; readonly other?: string; readonly forMs: number }
  /** Bytes take up to this long. */
  | { readonly type: 'netLatency'; readonly maxMs: number; readonly forMs: number }
  /** Calls to the store take up to this long, in each direction. Default of `node`: all servers. */
  | { readonly type: 'storeLatency'; readonly node?: string; readonly maxMs: number; readonly forMs: number }
  /** Responses to transactions get lost with this probability, whether they were applied or not. */
  | {
      readonly type: 'loseResponses'
      readonly node?: string
      readonly probability: number
      readonly forMs: number
    }
  /** The store serves nothing; transactions under way may happen or not. */
  | { readonly type: 'leaderChange'; readonly forMs: number }
  /** The watch of a server is served by a member that is behind by this much. */
  | { readonly type: 'lag'; readonly node: string; readonly byMs: number; readonly forMs: number }
  /** Drops the history up to `keep` revisions before the present one. */
  | { readonly type: 'compact'; readonly keep: number }
  /** The store refuses puts. */
  | { readonly type: 'full'; readonly forMs: number }
  /** An operator replaces the file of tokens. */
  | { readonly type: 'tokens'; readonly tokens: readonly WorldToken[] }
  /** Backs up the store. */
  | { readonly type: 'backUp' }
  /** The store becomes what it was at a backup (default: the last), with another identity. Without a backup it does nothing. */
  | { readonly type: 'restore'; readonly backup?: number }
  /**
   * An operator puts a copy of the store's files back, of the last backup, so that versions are given out a second time.
   * Servers, controllers and clients are stopped before and started after it, except for a server that was forgotten.
   */
  | { readonly type: 'putBack'; readonly forgotten?: string }
