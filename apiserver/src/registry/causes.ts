import type { StatusCause } from '@setpoint/controller-runtime/api'
import { objectLimits } from '../model/object-limits.ts'
import { shorten } from '../model/text-position.ts'

/** The violations of one write, up to the number that a response reports. Checks of a client's list stop once it is full. */
export class Causes {
  readonly #reported: StatusCause[]
  #overflows: boolean

  /** Starts with the causes found so far. */
  constructor(before?: Causes) {
    this.#reported = [...(before?.reported ?? [])]
    this.#overflows = before?.overflows ?? false
  }

  add(cause: StatusCause): void {
    if (this.#reported.length < objectLimits.violations) this.#reported.push(cause)
    else this.#overflows = true
  }

  get isEmpty(): boolean {
    return this.#reported.length === 0
  }

  /** True if there are more violations than `reported` holds. */
  get overflows(): boolean {
    return this.#overflows
  }

  get reported(): readonly StatusCause[] {
    return this.#reported
  }
}

/** Shortens a request's text for a message or a field path. */
export function echo(text: string): string {
  return shorten(text, objectLimits.echoedCharacters)
}
