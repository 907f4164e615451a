import { checkSubdomain } from '../api/names.ts'
import { identityOfThisProcess } from './process-identity.ts'

/** The times of an election, as in client-go. */
export const leaderElectionDefaults = Object.freeze({
  /** How long others wait for a holder that is silent. As in client-go, whose three figures go together. */
  leaseDurationMs: 15_000,
  /** How long a holder works without a renewal: the rest of the lease is for requests that are under way. */
  renewDeadlineMs: 10_000,
  /** Between two attempts: five renewals may fail before the deadline. */
  retryPeriodMs: 2_000,
  /** A candidate waits up to so many retry periods more between two attempts, so that candidates spread. */
  jitterFactor: 1.2,
  /** For giving the lease up when the manager stops: a server that is away must not keep it. */
  releaseTimeoutMs: 2_000,
  /** Whose groups the kind `Lease` is under, unless the server was told another domain. */
  reservedDomain: 'setpoint.dev',
})

/** Which lease is held, by whom, and with which times. */
export interface LeaderElectionOptions {
  /** Of the `Lease` object; candidates for the same work name the same one. */
  readonly lease: string
  /**
   * Tells this candidate from all others, also from its own process before a restart. Default: host name, a UUID, and
   * where the system tells, the process, so that on its own machine it is seen to have ended.
   */
  readonly identity?: string
  /** Whole seconds, and more than the renew deadline. */
  readonly leaseDurationMs?: number
  /** More than the retry period times `jitterFactor`. */
  readonly renewDeadlineMs?: number
  readonly retryPeriodMs?: number
  readonly releaseTimeoutMs?: number
  /** As the server was told by `--reserved-domain`. */
  readonly reservedDomain?: string
  /** From 0 up to, but not including, 1. Default `Math.random`. */
  readonly random?: () => number
}

export interface LeaderElectionSettings extends Required<LeaderElectionOptions> {}

/** @throws TypeError, RangeError for figures that do not go together. */
export function readLeaderElectionOptions(options: LeaderElectionOptions): LeaderElectionSettings {
  const {
    lease,
    identity = identityOfThisProcess(),
    leaseDurationMs = leaderElectionDefaults.leaseDurationMs,
    renewDeadlineMs = leaderElectionDefaults.renewDeadlineMs,
    retryPeriodMs = leaderElectionDefaults.retryPeriodMs,
    releaseTimeoutMs = leaderElectionDefaults.releaseTimeoutMs,
    reservedDomain = leaderElectionDefaults.reservedDomain,
    random = Math.random,
  } = options
  const nameProblem = checkSubdomain(lease)
  if (nameProblem !== undefined) throw new TypeError(`the name of a lease ${nameProblem}`)
  if (typeof identity !== 'string' || identity === '') {
    throw new TypeError('the identity of a candidate must not be empty')
  }
  for (const [name, ms] of Object.entries({
    leaseDurationMs,
    renewDeadlineMs,
    retryPeriodMs,
    releaseTimeoutMs,
  })) {
    if (!Number.isFinite(ms) || ms <= 0) throw new RangeError(`${name} must be above 0, is ${ms}`)
  }
  if (leaseDurationMs % 1000 !== 0) {
    throw new RangeError(`leaseDurationMs must be whole seconds, is ${leaseDurationMs}`)
  }
  if (leaseDurationMs <= renewDeadlineMs) {
    throw new RangeError(
      `leaseDurationMs (${leaseDurationMs}) must be above renewDeadlineMs (${renewDeadlineMs})`,
    )
  }
  const longestPauseMs = retryPeriodMs * leaderElectionDefaults.jitterFactor
  if (renewDeadlineMs <= longestPauseMs) {
    throw new RangeError(
      `renewDeadlineMs (${renewDeadlineMs}) must be above retryPeriodMs times ${leaderElectionDefaults.jitterFactor} (${longestPauseMs})`,
    )
  }
  return Object.freeze({
    lease,
    identity,
    leaseDurationMs,
    renewDeadlineMs,
    retryPeriodMs,
    releaseTimeoutMs,
    reservedDomain,
    random,
  })
}
