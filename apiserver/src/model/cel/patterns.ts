import { errorMessage } from '@setpoint/controller-runtime/api'
import { RE2JS } from 're2js'
import { type Budget, celLimits, stepCosts } from './budget.ts'
import { CelEvaluationError } from './errors.ts'

/** The syntax of RE2, as in Kubernetes, in time proportional to the text. */
export type Pattern = Pick<RE2JS, 'test' | 'matcher'>

/** The patterns used last. A rule has few; patterns that are part of an object may be any. */
const compiled = new Map<string, Pattern>()
const keptPatterns = 200

/** Compiles a pattern and spends the steps of matching it. @throws CelEvaluationError if it is invalid or too long */
export function compiledPattern(pattern: string, text: string, budget: Budget): Pattern {
  budget.spend(((text.length + 1) * (pattern.length + 8)) >> 6)
  const known = compiled.get(pattern)
  if (known !== undefined) return known
  if (pattern.length > celLimits.patternLength)
    throw new CelEvaluationError(`a pattern must have at most ${celLimits.patternLength} characters`)
  // Compiling a pattern takes longer than a match.
  budget.spend(20 * pattern.length)
  const made = compilePattern(pattern)
  if (made instanceof CelEvaluationError) throw made
  if (compiled.size >= keptPatterns) compiled.clear()
  compiled.set(pattern, made)
  return made
}

/** Returns the compiled pattern, or the error if it is invalid. */
export function compilePattern(pattern: string): Pattern | CelEvaluationError {
  try {
    return RE2JS.compile(pattern)
  } catch (error) {
    return new CelEvaluationError(`invalid pattern: ${errorMessage(error)}`)
  }
}

/** Returns the parts of the text that match, in order. */
export function matchesOf(pattern: string, text: string, limit: number, budget: Budget): string[] {
  const matcher = compiledPattern(pattern, text, budget).matcher(text)
  const found: string[] = []
  while (found.length < limit && matcher.find()) {
    budget.spend(stepCosts.match)
    found.push(matcher.group() ?? '')
  }
  return found
}
