/** An element of at most one linked list, which sets the links. */
export interface Linked {
  before: this | undefined
  after: this | undefined
}

/**
 * A doubly linked list through its elements: push and remove are O(1) and allocate nothing.
 */
export class LinkedList<E extends Linked> {
  #first: E | undefined
  #last: E | undefined
  #size = 0

  get first(): E | undefined {
    return this.#first
  }

  get size(): number {
    return this.#size
  }

  /** Appends an element that is in no list. */
  push(element: E): void {
    element.before = this.#last
    element.after = undefined
    if (this.#last === undefined) this.#first = element
    else this.#last.after = element
    this.#last = element
    this.#size++
  }

  /** Removes an element of this list. */
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
