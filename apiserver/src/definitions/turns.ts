import { setImmediate } from 'node:timers/promises'
import { type Clock, systemClock } from '@setpoint/controller-runtime'

export const turnDefaults = Object.freeze({
  /** Milliseconds of checks after which others have their turns of the event loop. */
  turnMs: 10,
})

/** Takes the steps of a check in turns of the event loop, because an object may be large. */
export async function inTurns(steps: Iterable<void>, clock: Clock = systemClock): Promise<void> {
  let began = clock.monotonic()
  for (const _step of steps) {
    if (clock.monotonic() - began < turnDefaults.turnMs) continue
    await setImmediate()
    began = clock.monotonic()
  }
}
