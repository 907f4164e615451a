import { randomBytes } from 'node:crypto'

/**
 * Returns `bytes` random bytes, 16 by default. `name` tells what they are for, such as `serial`: the conformance suite
 * seeds each name, so that two runs of the same history draw the same values.
 */
export type RandomSource = (name: string, bytes?: number) => Buffer

/** Cryptographically secure randomness of the system. */
export const systemRandom: RandomSource = (_name, bytes = 16) => randomBytes(bytes)
