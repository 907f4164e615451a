/**
 * Buffers the frames of one watch between its socket and its reader. Calls `onFull` at `limit` frames and `onEmpty`
 * when the reader has taken all of them, so that the socket can be paused meanwhile.
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

  /** Marks the end; frames in the queue can still be read. */
  end(): void {
    this.#ended = true
    this.#wake?.()
  }

  /** Returns the next frame, or undefined at the end. For one reader only. */
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
