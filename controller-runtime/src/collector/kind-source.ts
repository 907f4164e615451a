import type { Model } from '../api/model.ts'

/** Provides the kinds to collect in. */
export interface KindSource {
  /**
   * Yields all served kinds, ready or not: once they are all known, and again on every change. A kind that is missing
   * is not served.
   *
   * It yields all at once because a deletion with orphans completes when no kind has dependents left; those of an
   * unknown kind would be lost.
   */
  follow(signal: AbortSignal): AsyncIterable<readonly Model[]>
}

/** Always the same kinds, for tests. */
export function fixedKinds(models: readonly Model[]): KindSource {
  return {
    async *follow() {
      yield models
    },
  }
}
