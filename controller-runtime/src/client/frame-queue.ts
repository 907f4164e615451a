/**
 * The frames of one watch between its socket and its reader. `onFull` is called when `limit` frames wait and `onEmpty`
 * when the reader has taken them all, so that the socket can be held meanwhile: a reader that is slow fills neither
 * memory nor, beyond its own buffer, the server.
 */
export class FrameQueue {
  readonly #limit: number
  readonly #onFull: () => void
  readonly #onEmpty: () => void
  #frames: string[] = []
  #taken = 0
  #full = false
  #ended = false
  #wake: (() => void) | undefined

  constructor(limit: number, onFull: () => void, onEmpty: () => void) {
    this.#limit = limit
    this.#onFull = onFull
    this.#onEmpty = onEmpty
  }

  push(frame: string): void {
    if (this.#ended) return
    this.#frames.push(frame)
    if (!this.#full && this.#frames.length - this.#taken >= this.#limit) {
      this.#full = true
      this.#onFull()
    }
    this.#wake?.()
  }

  /** No more frames will come; those that wait can still be read. */
  end(): void {
    this.#ended = true
    this.#wake?.()
  }

  /** The next frame, or undefined at the end. One reader only. */
  async next(): Promise<string | undefined> {
    for (;;) {
      const frame = this.#frames[this.#taken]
      if (frame !== undefined) {
        this.#taken++
        return frame
      }
      if (this.#taken > 0) {
        this.#frames = []
        this.#taken = 0
      }
      if (this.#full) {
        this.#full = false
        this.#onEmpty()
      }
      if (this.#ended) return undefined
      await new Promise<void>(resolve => {
        this.#wake = resolve
      })
      this.#wake = undefined
    }
  }
}
