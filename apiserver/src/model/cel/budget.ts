/** Bounds for the rules of one write. */
export const celLimits = Object.freeze({
  /**
   * Steps of all rules on one object: calls, operators, iterations, and one for each 64 characters or 8 items that they
   * handle. The server does nothing else during an evaluation, which takes a few hundred milliseconds at this bound.
   */
  steps: 500_000,
  /** Characters of a rule, and of a message that a rule makes (Kubernetes: 5 KiB). */
  expressionLength: 5120,
  /** Characters of a regular expression that is not a literal of the rule. */
  patternLength: 1000,
})

/** Steps of operations that take longer than others. */
export const stepCosts = Object.freeze({
  /** An error that `||`, `&&`, `all` or `exists` absorbs. */
  error: 50,
  /** A match of a regular expression. */
  match: 5,
  /** As many steps of a `Pattern` are one step. */
  patternSteps: 64,
  /** A date in a time zone. */
  timeZone: 50,
  /** A question about permissions. */
  access: 100,
})

/** The rules need more steps than one write may take. Not an error of the expression, which could absorb it. */
export class BudgetExceededError extends Error {
  override readonly name = 'BudgetExceededError'
}

/** Counts the steps of an evaluation. */
export class Budget {
  #left: number

  constructor(steps: number = celLimits.steps) {
    this.#left = steps
  }

  /** @throws BudgetExceededError */
  spend(steps: number): void {
    this.#left -= steps
    if (this.#left < 0) throw new BudgetExceededError('the rules take too many steps')
  }
}
