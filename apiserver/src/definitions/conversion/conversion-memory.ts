import { createHash } from 'node:crypto'
import type { ConversionError, Release } from '../../model/index.ts'

export const memoryDefaults = Object.freeze({
  /** Bytes of converted objects that are remembered for all kinds together. */
  bytes: 64 * 1024 * 1024,
})

/** What a webhook has made of an object. */
export type Outcome =
  | {
      /** The JSON of the converted object. */
      readonly json: string
      readonly failure?: undefined
    }
  | { readonly json?: undefined; readonly failure: ConversionError }

/** Identifies an object in one state, and the version that it is converted to. */
export type ConversionKey = string

/** @param converter tells the webhook, which may give another result than the one before it */
export function conversionKey(converter: string, objectJson: string, to: string): ConversionKey {
  return createHash('sha256').update(`${converter}\n${to}\n`).update(objectJson).digest('base64')
}

/**
 * The outcomes of conversions. Results are remembered, the least recently used are forgotten first. Failures are not, because the
 * next attempt may succeed. Whoever runs again with an outcome holds it: until the release it is known in any case.
 */
export class ConversionMemory {
  readonly #maxBytes: number
  /** Results, the most recently used last. */
  readonly #results = new Map<ConversionKey, Outcome & { readonly json: string }>()
  readonly #held = new Map<ConversionKey, { readonly outcome: Outcome; holders: number }>()
  #bytes = 0

  constructor(maxBytes: number = memoryDefaults.bytes) {
    this.#maxBytes = maxBytes
  }

  find(key: ConversionKey): Outcome | undefined {
    const result = this.#results.get(key)
    if (result === undefined) return this.#held.get(key)?.outcome
    this.#results.delete(key)
    this.#results.set(key, result)
    return result
  }

  hold(key: ConversionKey, outcome: Outcome): Release {
    if (outcome.failure === undefined) this.#remember(key, outcome)
    const held = this.#held.get(key) ?? { outcome, holders: 0 }
    held.holders++
    this.#held.set(key, held)
    return () => {
      held.holders--
      if (held.holders === 0) this.#held.delete(key)
    }
  }

  #remember(key: ConversionKey, result: Outcome & { readonly json: string }): void {
    if (this.#results.has(key)) return
    this.#results.set(key, result)
    this.#bytes += key.length + result.json.length
    for (const [oldest, { json }] of this.#results) {
      if (this.#bytes <= this.#maxBytes) return
      this.#results.delete(oldest)
      this.#bytes -= oldest.length + json.length
    }
  }
}
