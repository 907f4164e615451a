import { type LeaderElectionOptions, leaderElectionDefaults } from '@setpoint/controller-runtime/internal'
import type { CommonOptions } from './options.ts'

/** Returns the options of the leader election. Its times keep the proportions of the defaults. */
export function electionOf({
  lease,
  leaseDurationMs,
}: Pick<CommonOptions, 'lease' | 'leaseDurationMs'>): LeaderElectionOptions {
  const scale = leaseDurationMs / leaderElectionDefaults.leaseDurationMs
  return {
    lease,
    leaseDurationMs,
    renewDeadlineMs: scale * leaderElectionDefaults.renewDeadlineMs,
    retryPeriodMs: scale * leaderElectionDefaults.retryPeriodMs,
  }
}
