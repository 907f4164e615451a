import { etcdDefaults } from './defaults.ts'

/** Returns the pause before a reconnection, in milliseconds. */
export function backoffMs(failures: number): number {
  return jittered(failures, etcdDefaults.backoffMinMs, etcdDefaults.backoffMaxMs)
}

/** Returns the pause before a transaction or a read is sent again, in milliseconds. */
export function resendPauseMs(attempts: number): number {
  return jittered(attempts, etcdDefaults.resendMinMs, etcdDefaults.resendMaxMs)
}

/** Doubles from the shortest to the longest pause. Jitter of up to half keeps callers from returning all at once. */
function jittered(attempt: number, minMs: number, maxMs: number): number {
  return Math.min(maxMs, minMs * 2 ** Math.min(attempt, 10)) * (1 - Math.random() / 2)
}
