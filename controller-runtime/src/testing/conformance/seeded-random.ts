import { createHash } from 'node:crypto'
import type { RandomSource } from '../../random.ts'

/** Shorter values are too common to recognize. */
const recognizableBytes = 8

/**
 * Randomness of one lifecycle. The n-th draw of a name is the same in every lifecycle. A restarted process does not
 * repeat the draws of its predecessor, since that would hide a reconciler that does not remember what it has made.
 */
export class SeededRandom {
  readonly #draws = new Map<string, number>()
  /** The texts of drawn values, with their placeholders. */
  readonly placeholders = new Map<string, string>()

  readonly draw: RandomSource = (name, bytes = 16) => {
    const draw = this.#draws.get(name) ?? 0
    this.#draws.set(name, draw + 1)
    const value = createHash('shake256', { outputLength: bytes }).update(`${name}/${draw}`).digest()
    if (bytes >= recognizableBytes) {
      const placeholder = `<random ${name.slice(name.lastIndexOf('/') + 1)}>`
      for (const encoding of ['hex', 'base64', 'base64url'] as const) {
        const text = value.toString(encoding)
        this.placeholders.set(text, placeholder)
        // As a Secret has it: the bytes of a text in base64.
        this.placeholders.set(Buffer.from(text).toString('base64'), placeholder)
      }
    }
    return value
  }
}
