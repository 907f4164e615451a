import { setTimeout as delay } from 'node:timers/promises'
import type { KindSource, Model } from '@setpoint/controller-runtime'
import type { ModelRegistry } from '../model/index.ts'

export const servedKindsDefaults = Object.freeze({
  /** Milliseconds between two looks at the registered models, which cost next to nothing. */
  intervalMs: 500,
})

/** The kinds of this server for the collector in this process, complete when every plugin has registered its models. */
export class ServedKinds implements KindSource {
  readonly #models: ModelRegistry
  readonly #isStarting: () => boolean

  constructor(models: ModelRegistry, isStarting: () => boolean) {
    this.#models = models
    this.#isStarting = isStarting
  }

  async *follow(signal: AbortSignal): AsyncGenerator<readonly Model[], void> {
    let known: readonly Model[] = []
    while (!signal.aborted) {
      const models = [...this.#models.all()].map(served => served.model)
      const changed = models.length !== known.length || models.some((model, at) => model !== known[at])
      if (changed && !this.#isStarting()) {
        known = models
        yield models
      }
      await delay(servedKindsDefaults.intervalMs, undefined, { signal, ref: false }).catch(() => {})
    }
  }
}
