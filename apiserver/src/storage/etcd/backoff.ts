import { etcdDefaults } from './defaults.ts'

/** Doubles from the least to the longest pause; each is shortened at random, so that servers do not come at once. */
export function backoffMs(failures: number, random: () => number = Math.random): number {
  const full = Math.min(etcdDefaults.backoffMaxMs, etcdDefaults.backoffMinMs * 2 ** Math.min(failures, 10))
  return full * (1 - random() / 2)
}
