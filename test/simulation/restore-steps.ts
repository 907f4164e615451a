import type { Random } from '../soak/random.ts'
import type { Extent, FaultStep } from './plan.ts'

/**
 * Returns a backup and a later restore to it. The operator stops the servers before, or not; then those that ran refuse the
 * store until they are started again, one after another or once all faults have ended. Controllers, watchers and clients go on.
 */
export function restoreOf(random: Random, { servers, lengthMs }: Extent): FaultStep[] {
  const backedUpAt = random.below(lengthMs * 0.7)
  const at = backedUpAt + 1 + random.below(lengthMs - backedUpAt)
  const steps: FaultStep[] = [{ at: backedUpAt, fault: { type: 'backUp' } }]
  for (let server = 0; server < servers; server++) {
    const node = `server-${server}`
    const forMs = 2 + random.below(random.pick([20, 1_000, 10_000]))
    if (random.chance(0.4)) steps.push({ at: at - 1, fault: { type: 'kill', node, forMs } })
    else if (random.chance(0.7)) steps.push({ at: at + forMs, fault: { type: 'restart', node } })
  }
  steps.push({ at, fault: { type: 'restore' } })
  return steps
}
