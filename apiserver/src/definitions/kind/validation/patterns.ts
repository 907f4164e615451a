import { Pattern, PatternError, patternDefaults } from '../../../model/index.ts'
import type { Findings } from '../../findings.ts'

class TooManySteps extends Error {}

/** The compiled patterns of one definition, by their source. Many fields share one. */
export class Patterns {
  readonly #compiled = new Map<string, Pattern | PatternError>()
  #stepsLeft = patternDefaults.steps

  check(source: string, place: string, found: Findings): void {
    const pattern = this.#of(source)
    if (pattern instanceof PatternError)
      found.invalid(place, `must be a regular expression of RE2: ${pattern.message}`)
  }

  /** Returns true if a default does not match. One that takes too many steps counts as a match. */
  refuses(source: string, text: string): boolean {
    const pattern = this.#of(source)
    if (pattern instanceof PatternError) return false
    try {
      return !pattern.test(text, this)
    } catch (error) {
      if (error instanceof TooManySteps) return false
      throw error
    }
  }

  spend(steps: number): void {
    this.#stepsLeft -= steps
    if (this.#stepsLeft < 0) throw new TooManySteps()
  }

  #of(source: string): Pattern | PatternError {
    const known = this.#compiled.get(source)
    if (known !== undefined) return known
    const made = compile(source)
    this.#compiled.set(source, made)
    return made
  }
}

function compile(source: string): Pattern | PatternError {
  try {
    return new Pattern(source)
  } catch (error) {
    if (error instanceof PatternError) return error
    throw error
  }
}
