import perfHooks from 'node:perf_hooks'
import type { Replaced } from './replaced.ts'
import type { Scheduler } from './scheduler.ts'

const histogram = { min: 0, max: 0, mean: 0, stddev: 0, exceeds: 0, percentile: () => 0 }

/** Measurements of the real process tell nothing about a node, and each server would start some that never end. */
export function replaceMeters(replaced: Replaced, scheduler: Scheduler): void {
  const inside = () => scheduler.current !== undefined
  replaced.method(perfHooks, 'monitorEventLoopDelay', inside, () => ({
    ...histogram,
    enable: () => true,
    disable: () => true,
    reset() {},
  }))
  replaced.method(perfHooks, 'PerformanceObserver', inside, () => ({ observe() {}, disconnect() {} }))
}
