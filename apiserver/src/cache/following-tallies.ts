/** Counts for one model since the server's start. */
export interface FollowingTally {
  /** Changes received from the log. */
  received: number
  /** Times that the cache was rebuilt from the store and its watches ended. */
  rebuilt: number
}

/** The tallies of all models. They stay when a model is not served for a while, because a counter must not decrease. */
export class FollowingTallies {
  readonly #tallies = new Map<string, FollowingTally>()

  /** By `<group>/<plural>`. */
  get all(): ReadonlyMap<string, Readonly<FollowingTally>> {
    return this.#tallies
  }

  /** Forgets the tallies of kinds that are gone. */
  keep(isKnown: (resource: string) => boolean): void {
    for (const resource of this.#tallies.keys()) if (!isKnown(resource)) this.#tallies.delete(resource)
  }

  of(resource: string): FollowingTally {
    const known = this.#tallies.get(resource)
    if (known !== undefined) return known
    const tally = { received: 0, rebuilt: 0 }
    this.#tallies.set(resource, tally)
    return tally
  }
}
