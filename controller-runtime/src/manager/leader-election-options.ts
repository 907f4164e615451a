import { type KeysOf, refuseUnknownKeys } from '../api/known-keys.ts'
import { checkDnsLabel, checkSubdomain } from '../api/names.ts'
import { systemNamespace } from './lease.ts'
import { identityOfThisProcess } from './process-identity.ts'

/** Times of leader election, as in client-go. */
export const leaderElectionDefaults = Object.freeze({
  /** How long candidates wait for a silent holder. The three times belong together. */
  leaseDurationMs: 15_000,
  /** How long a holder acts without a renewal. The rest of the lease is for requests in flight. */
  renewDeadlineMs: 10_000,
  /** Time between two attempts: five renewals may fail before the deadline. */
  retryPeriodMs: 2_000,
  /** A candidate adds up to this many retry periods of jitter. */
  jitterFactor: 1.2,
  /** Time to release the lease when the manager stops. */
  releaseTimeoutMs: 2_000,
})

/** The lease, the candidate's identity, and the times. */
export interface LeaderElectionOptions {
  /** Name of the `Lease` object; candidates for the same work use the same name. */
  readonly lease: string
  /**
   * Unique identity of this candidate, different after a restart. Default: host name, a UUID and, if the system tells,
   * the process, so that others on the same machine can see that it has ended.
   */
  readonly identity?: string
  /**
   * In whole seconds; longer than the renew deadline. Default, as for the next three: that of `leaderElectionDefaults`.
   */
  readonly leaseDurationMs?: number
  /** Longer than the retry period times `jitterFactor`. */
  readonly renewDeadlineMs?: number
  readonly retryPeriodMs?: number
  readonly releaseTimeoutMs?: number
  /** The namespace of the `Lease` object, which must exist. Default `setpoint-system`. */
  readonly namespace?: string
  /** Returns a number in [0, 1). Default `Math.random`. */
  readonly random?: () => number
}

const electionKeys: KeysOf<LeaderElectionOptions> = {
  lease: true,
  identity: true,
  leaseDurationMs: true,
  renewDeadlineMs: true,
  retryPeriodMs: true,
  releaseTimeoutMs: true,
  namespace: true,
  random: true,
}

export interface LeaderElectionSettings extends Required<LeaderElectionOptions> {}

/** @throws TypeError for an invalid name or an unknown option, RangeError for inconsistent times. */
export function readLeaderElectionOptions(options: LeaderElectionOptions): LeaderElectionSettings {
  refuseUnknownKeys(options, electionKeys, 'leaderElection')
  const {
    lease,
    identity = identityOfThisProcess(),
    leaseDurationMs = leaderElectionDefaults.leaseDurationMs,
    renewDeadlineMs = leaderElectionDefaults.renewDeadlineMs,
    retryPeriodMs = leaderElectionDefaults.retryPeriodMs,
    releaseTimeoutMs = leaderElectionDefaults.releaseTimeoutMs,
    namespace = systemNamespace,
    random = Math.random,
  } = options
  const nameProblem = checkSubdomain(lease)
  if (nameProblem !== undefined) throw new TypeError(`the lease name ${nameProblem}`)
  const namespaceProblem = checkDnsLabel(namespace)
  if (namespaceProblem !== undefined) throw new TypeError(`the namespace of the lease ${namespaceProblem}`)
  if (typeof identity !== 'string' || identity === '') {
    throw new TypeError('the identity must not be empty')
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
    namespace,
    random,
  })
}
