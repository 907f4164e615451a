export const checkWorkDefaults = Object.freeze({
  /** Steps of checking all defaults of one schema by it. */
  steps: 100_000,
  /** The same for one default. A step takes up to 1.5 µs, and all of them are in one turn of the event loop. */
  stepsAtOnce: 10_000,
  /** Rules that all defaults of one schema are checked by. To compile one takes up to 0.1 ms. */
  rules: 2000,
  /** Rules that one default is checked by. They are compiled in one turn of the event loop. */
  rulesAtOnce: 200,
})

/** The defaults of a schema take too many steps to check. */
export class TooManySteps extends Error {
  override readonly name = 'TooManySteps'
}

/** Bounds the work of checking defaults: a value of half of a definition by a schema of its other half would take minutes. */
export class CheckWork {
  #steps: number = checkWorkDefaults.steps
  #stepsAtOnce = 0
  #rules: number = checkWorkDefaults.rules

  /** Begins with another default. */
  begin(): void {
    this.#stepsAtOnce = checkWorkDefaults.stepsAtOnce
  }

  /** @throws TooManySteps */
  spend(steps: number): void {
    this.#steps -= steps
    this.#stepsAtOnce -= steps
    if (this.#steps < 0 || this.#stepsAtOnce < 0) throw new TooManySteps()
  }

  /** Returns false if a default cannot be checked by so many rules. */
  takesRules(count: number): boolean {
    if (count > checkWorkDefaults.rulesAtOnce || count > this.#rules) return false
    this.#rules -= count
    return true
  }
}
