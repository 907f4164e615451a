import { expect } from 'vitest'

const times = 16

/** Milliseconds that are always allowed: work that ends at once is too short to be compared. */
const leastMs = 20

/**
 * Expects work whose cost does not grow with the square of its size. It compares processor times, the least of several
 * tries, because a busy machine lengthens all of them: sixteen times the size may cost four times as much as linear
 * work does.
 */
export function expectLinear(work: (size: number) => unknown, largest = 64_000): void {
  let less = Number.POSITIVE_INFINITY
  let more = Number.POSITIVE_INFINITY
  for (let tries = 0; tries < 3; tries++) {
    less = Math.min(less, costMs(work, largest / times))
    more = Math.min(more, costMs(work, largest))
  }
  expect(more).toBeLessThan(4 * times * less + leastMs)
}

/** Returns the milliseconds of processor time that a call takes. */
function costMs(work: (size: number) => unknown, size: number): number {
  const before = process.cpuUsage()
  work(size)
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1000
}
