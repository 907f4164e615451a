/** The bounds of concurrent requests. */
interface SlotBounds {
  /** Of one target. */
  readonly perTarget: number
  /** Of all targets together, besides one for each. */
  readonly shared: number
}

interface Target {
  active: number
  readonly waiting: Set<() => void>
}

/**
 * Bounds concurrent requests so that a slow target never delays another: each target always has a slot of its own, and
 * only further slots come from a shared pool.
 *
 *     acquire ──▶ the target's own slot is free ──────────────────────────▶ granted
 *             ──▶ fewer than `perTarget`, and the pool has a slot ────────▶ granted
 *             ──▶ otherwise: waits, first in first out among its target ──▶ granted when a slot is released
 */
export class TargetSlots {
  readonly #bounds: SlotBounds
  /** Targets with a slot in use or a waiting request. Free slots are offered in this order. */
  readonly #targets = new Map<string, Target>()
  /** Slots of the pool that are in use. */
  #shared = 0

  constructor(bounds: SlotBounds) {
    this.#bounds = bounds
  }

  /** Number of targets with a slot in use or a waiting request. */
  get size(): number {
    return this.#targets.size
  }

  /**
   * Waits for a slot and returns a function that releases it.
   * @throws the signal's reason if it is or gets aborted
   */
  acquire(name: string, signal: AbortSignal): Promise<() => void> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) {
        reject(signal.reason)
        return
      }
      const target = this.#targets.get(name) ?? { active: 0, waiting: new Set() }
      this.#targets.set(name, target)
      const grant = () => {
        signal.removeEventListener('abort', onAbort)
        resolve(() => this.#release(name, target))
      }
      const onAbort = () => {
        target.waiting.delete(grant)
        this.#forget(name, target)
        reject(signal.reason)
      }
      signal.addEventListener('abort', onAbort, { once: true })
      target.waiting.add(grant)
      this.#serve(target)
    })
  }

  #release(name: string, target: Target): void {
    target.active--
    if (target.active > 0) this.#shared--
    this.#serve(target)
    // A slot of the pool may have become free.
    for (const [other, next] of this.#targets) {
      if (this.#shared >= this.#bounds.shared) break
      if (!this.#serve(next)) continue
      // The others come first the next time.
      this.#targets.delete(other)
      this.#targets.set(other, next)
      break
    }
    this.#forget(name, target)
  }

  /** Grants a slot to the first waiting request of a target if it may have one. */
  #serve(target: Target): boolean {
    const [grant] = target.waiting
    if (grant === undefined) return false
    if (target.active > 0) {
      if (target.active >= this.#bounds.perTarget || this.#shared >= this.#bounds.shared) return false
      this.#shared++
    }
    target.active++
    target.waiting.delete(grant)
    grant()
    return true
  }

  #forget(name: string, target: Target): void {
    if (target.active === 0 && target.waiting.size === 0) this.#targets.delete(name)
  }
}
