/** An element that can stand in one chain at a time; the links are the chain's own. */
export interface Chained {
  before: this | undefined
  after: this | undefined
}

/**
 * A list that runs through its elements themselves: putting one at the end and taking one out, wherever it stands, is
 * O(1), allocates nothing, and a burst of 100,000 leaves no grown array behind.
 */
export class Chain<E extends Chained> {
  #first: E | undefined
  #last: E | undefined
  #size = 0

  get first(): E | undefined {
    return this.#first
  }

  get size(): number {
    return this.#size
  }

  /** Puts an element that stands in no chain at the end. */
  push(element: E): void {
    element.before = this.#last
    element.after = undefined
    if (this.#last === undefined) this.#first = element
    else this.#last.after = element
    this.#last = element
    this.#size++
  }

  /** Takes out an element that stands in this chain. */
  remove(element: E): void {
    if (element.before === undefined) this.#first = element.after
    else element.before.after = element.after
    if (element.after === undefined) this.#last = element.before
    else element.after.before = element.before
    element.before = undefined
    element.after = undefined
    this.#size--
  }

  *[Symbol.iterator](): Generator<E, void> {
    for (let element = this.#first; element !== undefined; element = element.after) yield element
  }
}
