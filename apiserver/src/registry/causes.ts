import type { StatusCause } from '@setpoint/controller-runtime/api'
import { objectLimits } from '../model/index.ts'

/**
 * The violations of one write, up to the number that a response reports. Checks of a client's list stop once it is
 * full.
 */
export class Causes {
  readonly #reported: StatusCause[]
  #overflows: boolean
  #stops: boolean

  /** Starts with the causes found so far. */
  constructor(before?: Causes) {
    this.#reported = [...(before?.reported ?? [])]
    this.#overflows = before?.overflows ?? false
    this.#stops = before?.stops ?? false
  }

  add(cause: StatusCause): void {
    if (this.#reported.length < objectLimits.violations) this.#reported.push(cause)
    else this.#overflows = true
  }

  /** Adds the cause of a part that is too large, and stops further checks: they would take time in proportion to it. */
  addTooLarge(cause: StatusCause): void {
    this.add(cause)
    this.#stops = true
  }

  get isEmpty(): boolean {
    return this.#reported.length === 0
  }

  /** True if there are more violations than `reported` holds. */
  get overflows(): boolean {
    return this.#overflows
  }

  /** True if further checks are pointless: the response has no room for more, or a part is too large to be checked. */
  get stops(): boolean {
    return this.#stops || this.#overflows
  }

  get reported(): readonly StatusCause[] {
    return this.#reported
  }
}
