import type { Model } from '../api/model.ts'

/** Says which kinds there are to collect among. */
export interface KindSource {
  /**
   * The kinds that are served, ready or not: once all of them are known, and again whenever they change. What cannot
   * be found out is not yielded: a kind that is missing in what is yielded is not served.
   *
   * All of them at once, because a deletion with orphans ends when none of the kinds has dependents left; one that is
   * not named yet would lose its own.
   */
  follow(signal: AbortSignal): AsyncIterable<readonly Model[]>
}

/** Always the same kinds: for tests, and for whoever knows what is served. */
export function fixedKinds(models: readonly Model[]): KindSource {
  return {
    async *follow() {
      yield models
    },
  }
}
