import type { Random } from '../soak/random.ts'
import type { Extent, FaultStep, Step } from './plan.ts'
import { secondVersion } from './versions.ts'

export type ReloadStep = Extract<Step, { reload: number }>

/** Returns rolling updates, of which some leave out a server, go back, or meet the one before. */
export function reloadsOf(random: Random, { servers, lengthMs }: Extent): ReloadStep[] {
  const steps: ReloadStep[] = []
  for (let n = random.below(4); n >= 0; n--) {
    const reload = random.pick([0, 1, 1, 2, 2])
    const gapMs = random.pick([2, 30, 1_000, 10_000])
    let at = random.below(lengthMs)
    for (const server of random.shuffled(Array.from({ length: servers }, (_, n) => n))) {
      if (random.chance(0.8)) steps.push({ at, server, reload })
      at += random.below(gapMs)
    }
  }
  return steps
}

/** Lets some requests for gadgets and parts be in the second version. */
export function inVersions(random: Random, steps: readonly Step[]): Step[] {
  return steps.map(step => {
    if (!('action' in step) || !('of' in step.action)) return step
    const { action } = step
    if ((action.of !== 'gadgets' && action.of !== 'parts') || random.chance(0.65)) return step
    return { ...step, action: { ...action, version: secondVersion } }
  })
}

/** Returns slow stores for some reloads, so that much happens during each. */
export function slowReloads(random: Random, reloads: readonly ReloadStep[]): FaultStep[] {
  return reloads.flatMap(({ at, server }) => {
    if (random.chance(0.6)) return []
    const maxMs = random.pick([30, 200, 800])
    return [{ at, fault: { type: 'storeLatency', node: `server-${server}`, maxMs, forMs: 10 * maxMs } }]
  })
}
