import { RE2JS } from 're2js'
import { Pattern, PatternError } from '../pattern.ts'
import { type Budget, celLimits, stepCosts } from './budget.ts'
import { CelEvaluationError } from './errors.ts'

interface Compiled {
  readonly pattern: Pattern
  /** Finds the places of matches. */
  readonly finder: RE2JS
}

/** The patterns used last. A rule has few; patterns that are part of an object may be any. */
const compiled = new Map<string, Compiled>()
const keptPatterns = 200

/** @throws CelEvaluationError if the pattern is invalid or too long */
function compiledPattern(source: string, budget: Budget): Compiled {
  const known = compiled.get(source)
  if (known !== undefined) return known
  if (source.length > celLimits.patternLength)
    throw new CelEvaluationError(`a pattern must have at most ${celLimits.patternLength} characters`)
  // Compiling a pattern takes longer than a match.
  budget.spend(20 * source.length)
  const pattern = compilePattern(source)
  if (pattern instanceof CelEvaluationError) throw pattern
  const made = { pattern, finder: RE2JS.compile(source) }
  if (compiled.size >= keptPatterns) compiled.clear()
  compiled.set(source, made)
  return made
}

/** Returns the compiled pattern, or the error if it is invalid. */
export function compilePattern(source: string): Pattern | CelEvaluationError {
  try {
    return new Pattern(source)
  } catch (error) {
    if (error instanceof PatternError) return new CelEvaluationError(`invalid pattern: ${error.message}`)
    throw error
  }
}

/** Returns true if a part of the text matches. @throws CelEvaluationError */
export function hasMatch(source: string, text: string, budget: Budget): boolean {
  const { pattern } = compiledPattern(source, budget)
  return pattern.test(text, { spend: steps => budget.spend(steps / stepCosts.patternSteps) })
}

/** Returns the parts of the text that match, in order. @throws CelEvaluationError */
export function matchesOf(source: string, text: string, limit: number, budget: Budget): string[] {
  const { finder } = compiledPattern(source, budget)
  budget.spend(((text.length + 1) * finder.programSize()) >> 6)
  const matcher = finder.matcher(text)
  const found: string[] = []
  while (found.length < limit && matcher.find()) {
    budget.spend(stepCosts.match)
    found.push(matcher.group() ?? '')
  }
  return found
}
