/** The turn of one key, which its holders share one after another. */
export interface Turn {
  /** For the holders: when the key was last free, or a holder has paused. Monotonic time, ms. */
  since: number
}

/**
 * One turn for each key, taken in order:
 *
 *     take ──free──▶ held ──pass──▶ free, or held by the next one that waits
 *       └──▶ waiting ──its turn──▶ held
 *               └──── aborted ───▶ gone
 */
export class ObjectTurns {
  /** Those that wait, in order. A key is here while its turn is held. */
  readonly #lines = new Map<string, { readonly turn: Turn; readonly waiting: Set<() => void> }>()
  #waiting = 0

  /** How many wait, for all keys. */
  get waiting(): number {
    return this.#waiting
  }

  /** Returns true if somebody holds the turn. */
  isHeld(key: string): boolean {
    return this.#lines.has(key)
  }

  /** Waits for the turn. @throws the signal's reason when it is aborted first */
  take(key: string, now: number, signal: AbortSignal): Promise<Turn> {
    const line = this.#lines.get(key)
    if (line === undefined) {
      const turn = { since: now }
      this.#lines.set(key, { turn, waiting: new Set() })
      return Promise.resolve(turn)
    }
    const { turn, waiting } = line
    return new Promise((resolve, reject) => {
      const leave = () => {
        waiting.delete(admit)
        this.#waiting--
        signal.removeEventListener('abort', abort)
      }
      const admit = () => {
        leave()
        resolve(turn)
      }
      const abort = () => {
        leave()
        reject(signal.reason)
      }
      signal.throwIfAborted()
      waiting.add(admit)
      this.#waiting++
      signal.addEventListener('abort', abort)
    })
  }

  /** Passes the turn on. To be called once by its holder. */
  pass(key: string): void {
    const [admit] = this.#lines.get(key)?.waiting ?? []
    if (admit === undefined) this.#lines.delete(key)
    else admit()
  }
}
