/** Items of several callers. `shift` takes from one caller after another, and from each in the order of arrival. */
export class FairQueue<T> {
  /** The ring of callers; the first one is next. A caller without items is not in it. */
  readonly #queues = new Map<string, Set<T>>()
  #size = 0

  get size(): number {
    return this.#size
  }

  sizeOf(caller: string): number {
    return this.#queues.get(caller)?.size ?? 0
  }

  push(caller: string, item: T): void {
    const queue = this.#queues.get(caller)
    if (queue === undefined) this.#queues.set(caller, new Set([item]))
    else if (queue.has(item)) return
    else queue.add(item)
    this.#size++
  }

  /** The oldest item of the next caller that may go on. */
  peek(mayGoOn: (caller: string) => boolean = () => true): T | undefined {
    for (const [caller, queue] of this.#queues) {
      if (!mayGoOn(caller)) continue
      for (const item of queue) return item
    }
    return undefined
  }

  /** Removes the oldest item of the next caller, whose turn then comes last. */
  shift(): T | undefined {
    for (const [caller, queue] of this.#queues) {
      for (const item of queue) {
        this.delete(caller, item)
        return item
      }
    }
    return undefined
  }

  /** Removes an item. The other items of its caller go to the end of the ring. */
  delete(caller: string, item: T): boolean {
    const queue = this.#queues.get(caller)
    if (queue === undefined || !queue.delete(item)) return false
    this.#size--
    this.#queues.delete(caller)
    if (queue.size > 0) this.#queues.set(caller, queue)
    return true
  }
}
