/** An element of the heap, which sets its index. */
interface Delayed {
  /** Monotonic ms. */
  readyAt: number
  /** Order of elements with the same time. */
  order: number
  heapIndex: number
}

/** A binary heap of delayed elements, earliest first. Elements know their index, so any of them can be removed. */
export class DelayHeap<E extends Delayed> {
  readonly #elements: E[] = []

  get size(): number {
    return this.#elements.length
  }

  get earliest(): E | undefined {
    return this.#elements[0]
  }

  push(element: E): void {
    this.#elements.push(element)
    this.#rise(element, this.#elements.length - 1)
  }

  remove(element: E): void {
    const at = element.heapIndex
    const last = this.#elements.pop()
    element.heapIndex = -1
    if (last === undefined || last === element) return
    this.#sink(last, at)
    this.#rise(last, last.heapIndex)
  }

  clear(): void {
    this.#elements.length = 0
  }

  #rise(element: E, from: number): void {
    let at = from
    while (at > 0) {
      const parentAt = (at - 1) >> 1
      const parent = this.#elements[parentAt]
      if (parent === undefined || !isBefore(element, parent)) break
      this.#put(parent, at)
      at = parentAt
    }
    this.#put(element, at)
  }

  #sink(element: E, from: number): void {
    let at = from
    for (;;) {
      let childAt = 2 * at + 1
      let child = this.#elements[childAt]
      const right = this.#elements[childAt + 1]
      if (child !== undefined && right !== undefined && isBefore(right, child)) {
        child = right
        childAt++
      }
      if (child === undefined || !isBefore(child, element)) break
      this.#put(child, at)
      at = childAt
    }
    this.#put(element, at)
  }

  #put(element: E, at: number): void {
    this.#elements[at] = element
    element.heapIndex = at
  }
}

function isBefore(left: Delayed, right: Delayed): boolean {
  return left.readyAt < right.readyAt || (left.readyAt === right.readyAt && left.order < right.order)
}
