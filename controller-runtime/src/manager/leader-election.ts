import type { Client } from '../client/client.ts'
import { failureFields } from '../client/server-away.ts'
import type { CancelTimer, Clock } from '../clock.ts'
import type { Logger } from '../logger.ts'
import { unlessAborted } from '../unless-aborted.ts'
import { Watcher } from '../watch/watcher.ts'
import { type LeaderElectionSettings, leaderElectionDefaults } from './leader-election-options.ts'
import { holderOf, type LeaseModel, leaseModel } from './lease.ts'
import { type ClaimOutcome, LeaseLock } from './lease-lock.ts'

/** Somebody else may be working by now: whoever catches it does nothing more. Trying again does not help. */
export class LeadershipLostError extends Error {
  override readonly name = 'LeadershipLostError'
}

export interface LeaderElectorOptions {
  readonly client: Client
  readonly clock: Clock
  readonly log: Logger
  readonly settings: LeaderElectionSettings
  /** The work may begin. */
  onStarted(): void
  /**
   * The work must end, at once: called in the same turn in which the loss was noticed. What it answers settles when
   * nothing of the work is left that could not be begun a second time; there is no new attempt before.
   */
  onLost(reason: LeadershipLostError): Promise<void>
}

/**
 * Keeps one of several candidates working, by a `Lease` object, with the rules of client-go's leader election and a
 * fence of its own.
 *
 *     idle ──start──▶ candidate ──claimed──▶ leading ──end──▶ ended (released)
 *                      ▲   │ withdraw           │
 *                      │   └──────▶ ended       │ deadline passed, or the lease is another's
 *                      └────── work has ended ──┘
 *
 * Guarantees
 * - `fence()` throws from `renewDeadlineMs` after the start of the last renewal that succeeded, by the monotonic clock,
 *   whatever else this process does or fails to do: a process that could not run for a minute finds it closed at its
 *   first step afterwards. The others wait `leaseDurationMs`, which is longer.
 * - A candidate that has withdrawn never begins to work, also when its last attempt succeeds.
 *
 * Caveats
 * - Two may overlap: a request that had left the process before its stall arrives when it arrives. So writes carry
 *   versions.
 * - The monotonic clock of Linux stands still while the machine is suspended.
 */
export class LeaderElector {
  readonly #client: Client
  readonly #clock: Clock
  readonly #log: Logger
  readonly #settings: LeaderElectionSettings
  readonly #onStarted: LeaderElectorOptions['onStarted']
  readonly #onLost: LeaderElectorOptions['onLost']
  readonly #model: LeaseModel
  readonly #lock: LeaseLock
  #phase: 'idle' | 'candidate' | 'leading' | 'ended' = 'idle'
  /** Monotonic ms before which a leader may act. */
  #deadline = Number.NEGATIVE_INFINITY
  #cancelDeadline: CancelTimer = () => {}
  #withdrawn = false
  #ending = false
  #running: Promise<void> = Promise.resolve()
  /** What is left of a term that was lost. */
  #aftermath: Promise<void> = Promise.resolve()
  #attemptedAt = 0
  #attempt: AbortController | undefined
  #failedBefore = false
  /** The leader that was last spoken of. */
  #follows: string | undefined
  #wake: () => void = () => {}
  #freed = false

  constructor({ client, clock, log, settings, onStarted, onLost }: LeaderElectorOptions) {
    this.#client = client
    this.#clock = clock
    this.#settings = settings
    this.#log = log.child({ lease: settings.lease, identity: settings.identity })
    this.#onStarted = onStarted
    this.#onLost = onLost
    this.#model = leaseModel(settings.reservedDomain)
    const { lease: name, identity, leaseDurationMs } = settings
    this.#lock = new LeaseLock({ client, clock, model: this.#model, name, identity, leaseDurationMs })
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

  /** Who holds the lease, as far as is known here. */
  get leader(): string | undefined {
    return this.#lock.holder
  }

  /** Renewals that had to read the lease first. */
  get slowPaths(): number {
    return this.#lock.slowPaths
  }

  /** @throws LeadershipLostError unless this candidate leads, and its last renewal is recent enough. */
  fence(): void {
    if (this.isLeader) return
    this.#lose('its renew deadline has passed')
    throw new LeadershipLostError(`${this.identity} does not hold the lease ${this.lease}`)
  }

  /** What is wrong with the election itself, for a liveness check; undefined where nothing is. */
  get trouble(): string | undefined {
    if (this.#phase === 'idle' || this.#phase === 'ended') return undefined
    const { leaseDurationMs, retryPeriodMs } = this.#settings
    const silentMs = this.#clock.monotonic() - this.#attemptedAt
    // The longest pause between two attempts, and well more than one of them can take.
    const limitMs = leaseDurationMs + retryPeriodMs * (1 + leaderElectionDefaults.jitterFactor)
    if (silentMs <= limitMs) return undefined
    return `no attempt at the lease ${this.lease} for ${Math.round(silentMs / 1000)} s`
  }

  start(): void {
    if (this.#phase !== 'idle' || this.#withdrawn) return
    this.#phase = 'candidate'
    this.#running = this.#run().catch(error => {
      this.#log.error({ err: error }, 'the election has failed')
    })
  }

  /** A candidate gives up for good; a leader goes on until `end`. */
  withdraw(): void {
    this.#withdrawn = true
    this.#wake()
  }

  /**
   * Ends the renewals. With `release` others can take the lease at once: only when the work has ended, else they wait
   * until it has run out. Takes `releaseTimeoutMs` at most, and never rejects.
   */
  async end({ release }: { readonly release: boolean }): Promise<void> {
    this.withdraw()
    this.#ending = true
    this.#wake()
    const patience = new AbortController()
    const cancel = this.#clock.setTimeout(() => {
      const late = new DOMException('the lease could not be released in time', 'TimeoutError')
      this.#attempt?.abort(late)
      patience.abort(late)
    }, this.#settings.releaseTimeoutMs)
    try {
      await unlessAborted(this.#running, patience.signal)
      this.#close()
      if (release) await unlessAborted(this.#lock.release(patience.signal), patience.signal)
    } catch (error) {
      this.#log.warn({ err: error }, 'the lease could not be released; it runs out by itself')
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
        // No longer than the lease lasts: whoever has died is replaced the moment that it has run out.
        await this.#pause(outcome === 'taken' ? Math.min(pauseMs, this.#lock.runsOutInMs) : pauseMs)
        if (this.#withdrawn) return
      }
    } finally {
      watching.abort()
    }
  }

  /** Notices at once that the lease was given up: waiting for the next attempt would be two seconds and more. */
  async #watch(signal: AbortSignal): Promise<void> {
    const watcher = new Watcher(this.#client, this.#model, { name: this.lease, clock: this.#clock })
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
      // The attempts go on without it.
      if (!signal.aborted) this.#log.debug({ err: error }, 'the lease cannot be watched')
    }
  }

  /** Answers whether the work has begun: not when the answer came so late that its time is over. */
  #begin(startedAt: number): boolean {
    this.#deadline = startedAt + this.#settings.renewDeadlineMs
    if (this.#clock.monotonic() >= this.#deadline) return false
    this.#phase = 'leading'
    this.#armDeadline()
    this.#log.info({}, 'this process leads')
    this.#onStarted()
    return true
  }

  async #hold(): Promise<void> {
    while (!this.#ending) {
      await this.#pause(this.#settings.retryPeriodMs)
      if (this.#ending) return
      if (!this.isLeader) this.#lose('its renew deadline has passed')
      if (this.#phase !== 'leading') return
      const startedAt = this.#clock.monotonic()
      const outcome = await this.#try()
      if (this.#phase !== 'leading') return
      if (outcome === 'taken') {
        this.#lose(`${this.leader} has it`)
        return
      }
      if (outcome !== 'held') continue
      this.#deadline = startedAt + this.#settings.renewDeadlineMs
      this.#armDeadline()
    }
  }

  /** Never rejects, and takes half a renew deadline at most: one dead connection must not cost the lease. */
  async #try(): Promise<ClaimOutcome | 'failed'> {
    this.#attemptedAt = this.#clock.monotonic()
    this.#freed = false
    const attempt = new AbortController()
    this.#attempt = attempt
    const timeoutMs = this.#settings.renewDeadlineMs / 2
    const cancel = this.#clock.setTimeout(
      () => attempt.abort(new DOMException(`no answer within ${timeoutMs} ms`, 'TimeoutError')),
      timeoutMs,
    )
    try {
      // Not left to the transport, which may not heed the signal.
      const outcome = await unlessAborted(this.#lock.claim(attempt.signal), attempt.signal)
      this.#failedBefore = false
      this.#announce(outcome)
      return outcome
    } catch (error) {
      const first = !this.#failedBefore
      this.#failedBefore = true
      if (first || this.#phase === 'leading') {
        this.#log.warn(failureFields(error), 'the lease cannot be reached; trying again')
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
      this.#log.info({ leader: follows }, 'standing by: another process leads')
    }
    this.#follows = follows
  }

  #armDeadline(): void {
    this.#cancelDeadline()
    this.#cancelDeadline = this.#clock.setTimeout(
      () => this.#lose('its renew deadline has passed'),
      this.#deadline - this.#clock.monotonic(),
    )
  }

  #lose(why: string): void {
    if (this.#phase !== 'leading') return
    this.#close()
    const reason = new LeadershipLostError(`${this.identity} has lost the lease ${this.lease}: ${why}`)
    this.#log.error({ err: reason }, 'this process no longer leads')
    this.#aftermath = this.#onLost(reason).catch(error => {
      this.#log.error({ err: error }, 'what was going on could not be ended')
    })
    this.#wake()
  }

  /** From here on the fence is closed. */
  #close(): void {
    this.#cancelDeadline()
    this.#deadline = Number.NEGATIVE_INFINITY
    if (this.#phase === 'leading') this.#phase = 'candidate'
  }

  /** Resolves after `ms`, or earlier where something has happened. */
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
