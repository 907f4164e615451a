/** What has come of the log for one model, since the server's start. */
export interface FollowingTally {
  /** Changes taken from the log. */
  received: number
  /** Rebuilds that found every change that was missed. */
  exact: number
  /** Rebuilds after which watches had to begin anew. */
  reset: number
}

/** The tallies of all models. They stay when a model is not served for a while: a counter must not fall. */
export class FollowingTallies {
  readonly #tallies = new Map<string, FollowingTally>()

  /** By `<group>/<plural>`. */
  get all(): ReadonlyMap<string, Readonly<FollowingTally>> {
    return this.#tallies
  }

  of(resource: string): FollowingTally {
    const known = this.#tallies.get(resource)
    if (known !== undefined) return known
    const tally = { received: 0, exact: 0, reset: 0 }
    this.#tallies.set(resource, tally)
    return tally
  }
}
