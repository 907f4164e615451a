import { errorMessage } from '../api/error-message.ts'
import type { Client } from '../client/client.ts'
import { failureFields } from '../client/server-away.ts'
import type { CancelTimer, Clock } from '../clock.ts'
import { Lease } from '../kinds/lease.ts'
import type { Logger } from '../logger.ts'
import { unlessAborted } from '../unless-aborted.ts'
import { Watcher } from '../watch/watcher.ts'
import { type LeaderElectionSettings, leaderElectionDefaults } from './leader-election-options.ts'
import { holderOf } from './lease.ts'
import { type ClaimOutcome, LeaseLock } from './lease-lock.ts'

/** This process is no longer the leader, and another may be. Stop all work; a retry does not help. */
export class LeadershipLostError extends Error {
  override readonly name = 'LeadershipLostError'
}

interface LeaderElectorOptions {
  readonly client: Client
  readonly clock: Clock
  readonly log: Logger
  readonly settings: LeaderElectionSettings
  /** Leadership was acquired: start the work. */
  onStarted(): void
  /**
   * Leadership was lost: stop the work at once. Called synchronously. The returned promise settles when all work that
   * must not be started twice has ended; the elector makes no new attempt before.
   */
  onLost(reason: LeadershipLostError): Promise<void>
}

/**
 * Elects one of several candidates by a `Lease` object, with the rules of client-go's leader election and a leadership
 * guard.
 *
 *     idle ──start──▶ candidate ──claimed──▶ leading ──end──▶ ended (released)
 *                      ▲   │ withdraw           │
 *                      │   └──────▶ ended       │ deadline passed, or another holds the lease
 *
 * Guarantees
 * - `leadershipGuard()` throws from `renewDeadlineMs` after the start of the last successful renewal, by the monotonic
 *   clock. It needs no timer: a process that was suspended for a minute gets the error at its first step. Others wait
 *   for `leaseDurationMs`, which is longer.
 * - A candidate that has withdrawn never becomes the leader, even if its last attempt succeeds.
 *
 * Caveats
 * - Two leaders may overlap: a request sent before a stall may arrive late. Therefore writes carry versions.
 * - Linux's monotonic clock stops while the machine is suspended.
 */
export class LeaderElector {
  readonly #client: Client
  readonly #clock: Clock
  readonly #log: Logger
  readonly #settings: LeaderElectionSettings
  readonly #onStarted: LeaderElectorOptions['onStarted']
  readonly #onLost: LeaderElectorOptions['onLost']
  readonly #lock: LeaseLock
  #phase: 'idle' | 'candidate' | 'leading' | 'ended' = 'idle'
  /** Monotonic ms until which the leader may act. */
  #deadline = Number.NEGATIVE_INFINITY
  #cancelDeadline: CancelTimer = () => {}
  #withdrawn = false
  #ending = false
  #running: Promise<void> = Promise.resolve()
  /** Settles when the work of a lost term has ended. */
  #aftermath: Promise<void> = Promise.resolve()
  #attemptedAt = 0
  /** Monotonic ms of the last attempt that has succeeded, whoever holds the lease. */
  #succeededAt = Number.NEGATIVE_INFINITY
  /** Why the last attempt has failed, if it has. */
  #failure: { readonly error: unknown } | undefined
  #attempt: AbortController | undefined
  /** The leader that was last logged. */
  #follows: string | undefined
  #wake: () => void = () => {}
  #freed = false

  constructor({ client, clock, log, settings, onStarted, onLost }: LeaderElectorOptions) {
    this.#client = client.inNamespace(settings.namespace)
    this.#clock = clock
    this.#settings = settings
    this.#log = log.child({ lease: settings.lease, identity: settings.identity })
    this.#onStarted = onStarted
    this.#onLost = onLost
    const { lease: name, identity, leaseDurationMs } = settings
    this.#lock = new LeaseLock({ client: this.#client, clock, name, identity, leaseDurationMs })
  }

  get lease(): string {
    return this.#settings.lease
  }

  get identity(): string {
    return this.#settings.identity
  }

  get isLeader(): boolean {
    return this.#phase === 'leading' && this.#clock.monotonic() < this.#deadline
  }

  /** The holder of the lease, as last observed. */
  get leader(): string | undefined {
    return this.#lock.holder
  }

  /** Number of renewals that had to read the lease first. */
  get slowPaths(): number {
    return this.#lock.slowPaths
  }

  /** @throws LeadershipLostError unless this candidate is the leader and its last renewal is recent enough. */
  leadershipGuard(): void {
    if (this.isLeader) return
    this.#lose('the renew deadline has passed')
    throw new LeadershipLostError(`${this.identity} does not hold the lease ${this.lease}`)
  }

  /**
   * Why this candidate neither leads nor stands by beside a live leader, for a readiness check; otherwise undefined. A
   * single failed attempt is no reason: the lease has to expire, or the server must be away for as long.
   */
  get unready(): string | undefined {
    if (this.isLeader) return undefined
    const { identity, leaseDurationMs } = this.#settings
    const silentMs = this.#clock.monotonic() - this.#succeededAt
    if (silentMs > leaseDurationMs) {
      const time = Number.isFinite(silentMs) ? `for ${Math.round(silentMs / 1000)} s` : 'yet'
      const why = this.#failure === undefined ? '' : `: ${errorMessage(this.#failure.error)}`
      return `no attempt at the lease has succeeded ${time}${why}`
    }
    const { holder } = this.#lock
    if (holder === undefined) return 'no process holds the lease'
    if (holder === identity) return 'this process has lost the lease'
    return this.#lock.runsOutInMs > 0 ? undefined : `the lease of ${holder} has expired`
  }

  /** The problem of a stuck election, for a liveness check; otherwise undefined. */
  get trouble(): string | undefined {
    if (this.#phase === 'idle' || this.#phase === 'ended') return undefined
    const { leaseDurationMs, retryPeriodMs } = this.#settings
    const silentMs = this.#clock.monotonic() - this.#attemptedAt
    // The longest pause between two attempts, plus ample time for one.
    const limitMs = leaseDurationMs + retryPeriodMs * (1 + leaderElectionDefaults.jitterFactor)
    if (silentMs <= limitMs) return undefined
    return `no attempt at the lease ${this.lease} for ${Math.round(silentMs / 1000)} s`
  }

  start(): void {
    if (this.#phase !== 'idle' || this.#withdrawn) return
    this.#phase = 'candidate'
    this.#running = this.#run().catch(error => {
      this.#log.error({ err: error }, 'leader election failed')
    })
  }

  /** Stops a candidate for good; a leader continues until `end`. */
  withdraw(): void {
    this.#withdrawn = true
    this.#wake()
  }

  /**
   * Stops renewing. With `release`, which requires that all work has ended, others can acquire the lease at once; else
   * it expires. Takes at most `releaseTimeoutMs`; never rejects.
   */
  async end({ release }: { readonly release: boolean }): Promise<void> {
    this.withdraw()
    this.#ending = true
    this.#wake()
    const patience = new AbortController()
    const cancel = this.#clock.setTimeout(() => {
      const late = new DOMException('the lease was not released in time', 'TimeoutError')
      this.#attempt?.abort(late)
      patience.abort(late)
    }, this.#settings.releaseTimeoutMs)
    try {
      await unlessAborted(this.#running, patience.signal)
      this.#close()
      if (release) await unlessAborted(this.#lock.release(patience.signal), patience.signal)
    } catch (error) {
      this.#log.warn({ err: error }, 'failed to release lease, leaving it to expire')
    } finally {
      cancel()
      this.#close()
      this.#phase = 'ended'
    }
  }

  async #run(): Promise<void> {
    while (!this.#withdrawn) {
      await this.#campaign()
      if (this.#phase === 'leading') await this.#hold()
      await this.#aftermath
    }
  }

  async #campaign(): Promise<void> {
    const watching = new AbortController()
    void this.#watch(watching.signal)
    try {
      for (;;) {
        const startedAt = this.#clock.monotonic()
        const outcome = await this.#try()
        if (this.#withdrawn) return
        if (outcome === 'held' && this.#begin(startedAt)) return
        const { retryPeriodMs, random } = this.#settings
        const pauseMs = retryPeriodMs * (1 + leaderElectionDefaults.jitterFactor * random())
        // Not longer than until the lease expires, so that a dead holder is replaced at once.
        await this.#pause(outcome === 'taken' ? Math.min(pauseMs, this.#lock.runsOutInMs) : pauseMs)
        if (this.#withdrawn) return
      }
    } finally {
      watching.abort()
    }
  }

  /** Notices a released lease at once rather than at the next attempt. */
  async #watch(signal: AbortSignal): Promise<void> {
    const watcher = new Watcher(this.#client, Lease, { name: this.lease, clock: this.#clock })
    try {
      for await (const event of watcher.events(signal)) {
        if (event.type !== 'applied') continue
        const before = this.#lock.holder
        this.#lock.observe(event.object)
        if (holderOf(event.object) !== undefined || before === undefined) continue
        this.#freed = true
        this.#wake()
      }
    } catch (error) {
      // The attempts continue without the watch.
      if (!signal.aborted) this.#log.debug({ err: error }, 'failed to watch lease')
    }
  }

  /** Becomes the leader. Returns false if the response came so late that the deadline has passed. */
  #begin(startedAt: number): boolean {
    this.#deadline = startedAt + this.#settings.renewDeadlineMs
    if (this.#clock.monotonic() >= this.#deadline) return false
    this.#phase = 'leading'
    this.#armDeadline()
    this.#log.info({}, 'became leader')
    this.#onStarted()
    return true
  }

  async #hold(): Promise<void> {
    while (!this.#ending) {
      await this.#pause(this.#settings.retryPeriodMs)
      if (this.#ending) return
      if (!this.isLeader) this.#lose('the renew deadline has passed')
      if (this.#phase !== 'leading') return
      const startedAt = this.#clock.monotonic()
      const outcome = await this.#try()
      if (this.#phase !== 'leading') return
      if (outcome === 'taken') {
        this.#lose(`${this.leader} holds it`)
        return
      }
      if (outcome !== 'held') continue
      this.#deadline = startedAt + this.#settings.renewDeadlineMs
      this.#armDeadline()
    }
  }

  /**
   * Makes one attempt of at most half a renew deadline, so that a dead connection does not cost the lease. Never
   * rejects.
   */
  async #try(): Promise<ClaimOutcome | 'failed'> {
    this.#attemptedAt = this.#clock.monotonic()
    this.#freed = false
    const attempt = new AbortController()
    this.#attempt = attempt
    const timeoutMs = this.#settings.renewDeadlineMs / 2
    const cancel = this.#clock.setTimeout(
      () => attempt.abort(new DOMException(`no response within ${timeoutMs} ms`, 'TimeoutError')),
      timeoutMs,
    )
    try {
      // A transport may ignore the signal.
      const outcome = await unlessAborted(this.#lock.claim(attempt.signal), attempt.signal)
      this.#failure = undefined
      this.#succeededAt = this.#clock.monotonic()
      this.#announce(outcome)
      return outcome
    } catch (error) {
      const first = this.#failure === undefined
      this.#failure = { error }
      if (first || this.#phase === 'leading') {
        this.#log.warn(failureFields(error), 'failed to acquire or renew lease, retrying')
      }
      return 'failed'
    } finally {
      cancel()
      this.#attempt = undefined
    }
  }

  #announce(outcome: ClaimOutcome): void {
    const follows = outcome === 'taken' ? this.leader : undefined
    if (follows !== undefined && follows !== this.#follows) {
      this.#log.info({ leader: follows }, 'standing by, another process is the leader')
    }
    this.#follows = follows
  }

  #armDeadline(): void {
    this.#cancelDeadline()
    this.#cancelDeadline = this.#clock.setTimeout(
      () => this.#lose('the renew deadline has passed'),
      this.#deadline - this.#clock.monotonic(),
    )
  }

  #lose(why: string): void {
    if (this.#phase !== 'leading') return
    this.#close()
    const reason = new LeadershipLostError(`${this.identity} lost the lease ${this.lease}: ${why}`)
    this.#log.error({ err: reason }, 'lost leadership')
    this.#aftermath = this.#onLost(reason).catch(error => {
      this.#log.error({ err: error }, 'failed to stop work after losing the lease')
    })
    this.#wake()
  }

  /** Makes the leadership guard throw. */
  #close(): void {
    this.#cancelDeadline()
    this.#deadline = Number.NEGATIVE_INFINITY
    if (this.#phase === 'leading') this.#phase = 'candidate'
  }

  /** Resolves after `ms`, or earlier if woken. */
  #pause(ms: number): Promise<void> {
    if (this.#freed || this.#ending) return Promise.resolve()
    return new Promise(resolve => {
      const cancel = this.#clock.setTimeout(() => this.#wake(), ms)
      this.#wake = () => {
        cancel()
        this.#wake = () => {}
        resolve()
      }
    })
  }
}
