import { setImmediate } from 'node:timers/promises'
import { countParts } from '../model/index.ts'

export const turnDefaults = Object.freeze({
  /**
   * Bytes of the JSON of a body or object from which its decoding, its change and its checks have a turn of the event
   * loop each. Below, all of them together take some milliseconds.
   */
  largeBytes: 64 * 1024,
  /** The same for the parts of a decoded body, as `countParts` counts them. */
  manyParts: 5000,
})

/**
 * Returns true if a step of a write should be followed by `nextTurn`. The question spares small objects the promise.
 */
export function isLarge({ length }: Uint8Array): boolean {
  return length > turnDefaults.largeBytes
}

/** The same for a decoded body. */
export function hasManyParts(body: unknown): boolean {
  return countParts(body) > turnDefaults.manyParts
}

/** Lets others have their turns of the event loop. */
export async function nextTurn(): Promise<void> {
  await setImmediate()
}
