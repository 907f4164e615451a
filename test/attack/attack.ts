import type { Store } from '../support/worlds.ts'
import type { Setup, Target } from './target.ts'

/** `short` is part of `npm test`; `long` is `npm run attack`. */
export type Form = 'short' | 'long'

/** One attack: who sends what, and what must hold. */
export interface Attack {
  readonly name: string
  /** The attacker's role. */
  readonly attacker: 'no token' | 'viewer' | 'writer' | 'plugin' | 'local user'
  /** Default: plain HTTP with tokens. */
  readonly setup?: Setup
  /** Number of objects in the collection besides those of the second caller. Default 0. */
  readonly objects?: Readonly<Record<Form, number>>
  /** Default: the embedded store only, because the attack does not reach the store. */
  readonly stores?: readonly Store[]
  /** Bytes that may stay besides, because a history with a bound of its own keeps the changes. Default 0. */
  readonly keptBytes?: number
  /**
   * Its cost is that of connections and small requests, or of bytes that the kernel takes. If it breaks a bound, the
   * long form runs it against a bare Node server as well: Setpoint may be twice as slow.
   */
  readonly comparable?: boolean
  /** Only the long form runs it: it waits for timers. */
  readonly longOnly?: boolean
  /**
   * Sends a bounded number of requests and ends in bounded time, also when `signal` is aborted. Removes the objects
   * that it has created. The arena checks what every attack must leave intact.
   */
  run(scene: Scene): Promise<void>
}

/** The means of an attack. */
export interface Scene {
  readonly target: Target
  readonly form: Form
  /** Aborted when the time of the attack is over or the server has ended. */
  readonly signal: AbortSignal
  /** Returns one of two numbers, by the form. */
  count(short: number, long: number): number
  /** Reports `otherwise` if the condition does not hold. */
  check(condition: boolean, otherwise: string): void
  /** Reports a duration above its bound. Only the long form judges it. */
  checkMs(what: string, ms: number, boundMs: number): void
  /**
   * Kills the server and starts it again, unseen by the second caller. @returns the milliseconds until it serves
   * objects
   */
  restart(): Promise<number>
}
