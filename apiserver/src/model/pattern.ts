import { errorMessage } from '@setpoint/controller-runtime/api'
import { RE2Set } from 're2js'

export const patternDefaults = Object.freeze({
  /** Instructions of a compiled pattern: a state of the automaton holds some of them, and is made in that time. */
  maxInstructions: 5000,
  /** Bytes of the states kept for one pattern. Ordinary patterns have some dozens of states. */
  stateBytes: 512 * 1024,
  /** Steps of all patterns that one object is checked against: enough for each character of the largest object once. */
  steps: 1_600_000,
})

/** The pattern is outside of RE2's syntax, or too large. The message is a clause with the reason. */
export class PatternError extends Error {
  override readonly name = 'PatternError'
}

/** Counts the steps of a match. A step takes 7 to 25 ns. */
export interface PatternSteps {
  /** @throws to end the match */
  spend(steps: number): void
}

/** A state of the automaton: the instructions at which a match may be. */
interface State {
  /** True if the text before the last character matches. */
  readonly isMatch: boolean
  readonly nfaStates: ArrayLike<number>
  /** The following states by class of characters, as far as they are known. */
  readonly next: readonly (State | null)[] | null
  readonly nextAnchored: readonly (State | null)[] | null
}

/** The members that `Pattern` uses of re2js' automaton, which re2js declares but does not document. */
interface Automaton {
  /** A number past those of all classes stands for the end of the text. */
  readonly numClasses: number
  /** The classes of the first 256 characters. */
  readonly latin1Class: Int32Array
  runeClass(character: number): number
  start(input: { context(): number }, at: number): State | null
  step(state: State, characterClass: number, character: number, anchor: number): State | null
  /** Removes all states but one. */
  resetCache(state: State): State | null
}

const endOfText = -1
const latin1 = 0xff
/** RE2's flags of a position at the start of the text: it also starts a line. */
const startOfText = 5
const beginText = 4
/** Steps to make a state, besides those for its instructions and its table of classes. */
const stateSteps = 100

/**
 * A regular expression in the syntax of RE2, as in Kubernetes. A match takes time proportional to the text, and never
 * goes back.
 *
 * An automaton makes its states when a text leads to them. Ordinary patterns have few, so that each character is a
 * lookup. Some patterns lead to a new state at every character, each as costly as the pattern is large;
 * `(a|b)*a(a|b){90}` is one. Therefore the steps are counted. This class runs the automaton itself because re2js would
 * continue without a bound, in an engine that takes 30 ns for every character and instruction.
 */
export class Pattern {
  readonly source: string
  readonly #automaton: Automaton
  readonly #anchor: number
  /** Whether a text matches that ends in a state. The automaton has no table for it. */
  readonly #atEnd = new WeakMap<State, boolean>()

  /** @throws PatternError */
  constructor(source: string) {
    this.source = source
    const { maxInstructions, stateBytes } = patternDefaults
    // The set has one pattern. Unlike RE2JS, it gives the automaton a bound of memory.
    const set = new RE2Set(RE2Set.UNANCHORED, 0, stateBytes)
    try {
      set.add(source)
      set.compile()
    } catch (error) {
      throw new PatternError(errorMessage(error).replace(/^error parsing regexp: /, ''))
    }
    const instructions = set.prog.numInst()
    if (instructions > maxInstructions) {
      throw new PatternError(
        `it is too large: it compiles to ${instructions} instructions, at most ${maxInstructions} are allowed`,
      )
    }
    this.#automaton = set.dfa
    const isAnchored = (set.prog.startCond() & beginText) !== 0
    this.#anchor = isAnchored ? RE2Set.ANCHOR_START : RE2Set.UNANCHORED
  }

  /** Returns true if a part of the text matches. Passes on what `steps` throws. */
  test(text: string, steps: PatternSteps): boolean {
    const automaton = this.#automaton
    const { latin1Class } = automaton
    const isAnchored = this.#anchor !== RE2Set.UNANCHORED
    let state = present(automaton.start({ context: () => startOfText }, 0))
    let at = 0
    while (at < text.length) {
      const character = text.codePointAt(at) ?? 0
      const of = character <= latin1 ? (latin1Class[character] ?? 0) : automaton.runeClass(character)
      const table = isAnchored ? state.nextAnchored : state.next
      state = table?.[of] ?? this.#step(state, of, character, steps)
      at += character > 0xffff ? 2 : 1
      if (state.isMatch || (isAnchored && state.nfaStates.length === 0)) break
    }
    steps.spend(at)
    return state.isMatch || (at === text.length && this.#matchesAtEnd(state, steps))
  }

  #matchesAtEnd(state: State, steps: PatternSteps): boolean {
    const known = this.#atEnd.get(state)
    if (known !== undefined) {
      steps.spend(1)
      return known
    }
    const { isMatch } = this.#step(state, this.#automaton.numClasses, endOfText, steps)
    this.#atEnd.set(state, isMatch)
    return isMatch
  }

  #step(state: State, characterClass: number, character: number, steps: PatternSteps): State {
    const automaton = this.#automaton
    const next =
      automaton.step(state, characterClass, character, this.#anchor) ??
      automaton.step(present(automaton.resetCache(state)), characterClass, character, this.#anchor)
    const { nfaStates } = present(next)
    steps.spend(stateSteps + automaton.numClasses + 4 * (state.nfaStates.length + nfaStates.length))
    return present(next)
  }
}

/** `maxInstructions` keeps states so small that two always fit. */
function present(state: State | null): State {
  if (state === null) throw new Error('a state of a pattern has no room')
  return state
}
