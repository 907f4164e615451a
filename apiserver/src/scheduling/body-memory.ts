import { ApiError } from '@setpoint/controller-runtime/api'
import { quote, retryAfterSeconds } from '@setpoint/controller-runtime/internal'

export interface BodyBounds {
  /** Bytes of all bodies, and of those of one identity. */
  readonly bytes: number
  readonly bytesPerIdentity: number
}

/** The bytes of a body that have arrived. Changed only by the BodyMemory that it belongs to. */
export interface HeldBody {
  readonly holder: BodyHolder
  bytes: number
  isReleased: boolean
  /** Ends its reading. */
  readonly refuse: (why: ApiError) => void
}

/** The bodies of one identity. */
interface BodyHolder {
  readonly identity: string
  bodies: number
  bytes: number
  /** Incomplete bodies, the one without progress for the longest time first. */
  readonly arriving: Set<HeldBody>
}

/**
 * The memory of request bodies, from their first bytes to the end of their requests.
 *
 *     arriving ──its last byte──▶ complete ──the request ends──▶ released
 *        └──past a bound, without progress for the longest time──▶ refused
 *
 * Bytes count when they arrive, not when they are declared, so a stalled body costs others nothing. No body waits for
 * memory.
 */
export class BodyMemory {
  readonly #bounds: BodyBounds
  readonly #holders = new Map<string, BodyHolder>()
  #bytes = 0

  constructor(bounds: BodyBounds) {
    this.#bounds = bounds
  }

  /** Bytes of all bodies. */
  get bytes(): number {
    return this.#bytes
  }

  /**
   * Begins a body. `release` must follow, also after it was refused.
   * @param refuse ends its reading with an error. Its bytes are released already.
   */
  begin(identity: string, refuse: (why: ApiError) => void): HeldBody {
    let holder = this.#holders.get(identity)
    if (holder === undefined) {
      holder = { identity, bodies: 0, bytes: 0, arriving: new Set() }
      this.#holders.set(identity, holder)
    }
    const body: HeldBody = { holder, bytes: 0, isReleased: false, refuse }
    holder.bodies++
    holder.arriving.add(body)
    return body
  }

  /** Counts bytes that have arrived. Past a bound, refuses bodies with 429 until the rest fits. */
  add(body: HeldBody, bytes: number): void {
    if (body.isReleased) return
    const { holder } = body
    body.bytes += bytes
    holder.bytes += bytes
    this.#bytes += bytes
    holder.arriving.delete(body)
    holder.arriving.add(body)
    while (!body.isReleased) {
      const full = this.#pastBound(holder)
      if (full === undefined) return
      const why = `too many bytes of request bodies: those of ${quote(full.identity)} hold ${full.bytes}`
      const [stalest = body] = full.arriving
      this.release(stalest)
      stalest.refuse(new ApiError('TooManyRequests', why, { retryAfterSeconds }))
    }
  }

  /** The whole body has arrived. */
  complete(body: HeldBody): void {
    body.holder.arriving.delete(body)
  }

  release(body: HeldBody): void {
    if (body.isReleased) return
    body.isReleased = true
    const { holder } = body
    holder.arriving.delete(body)
    holder.bytes -= body.bytes
    this.#bytes -= body.bytes
    holder.bodies--
    if (holder.bodies === 0) this.#holders.delete(holder.identity)
  }

  /**
   * Returns the identity whose bodies must shrink: this one if it exceeds its own bound; otherwise, if the total is
   * exceeded, the largest one.
   */
  #pastBound(holder: BodyHolder): BodyHolder | undefined {
    const { bytes, bytesPerIdentity } = this.#bounds
    if (holder.bytes > bytesPerIdentity) return holder
    if (this.#bytes <= bytes) return undefined
    let largest = holder
    for (const each of this.#holders.values()) if (each.bytes > largest.bytes) largest = each
    return largest
  }
}
