import type { Exchange, FaultInjector } from './fault-injector.ts'
import type { Flow } from './flow.ts'

/**
 * An exchange that can be held before it is forwarded or at any time later:
 *
 *     held ⇄ forwarded ──▶ over
 *
 * A disconnection while it is held takes effect when it is released.
 */
export abstract class HeldExchange implements Exchange {
  readonly #injector: FaultInjector
  readonly #flows: Flow[] = []
  #upstream: { destroy(): unknown } | undefined
  #isHeld: boolean
  /** The client or the server disconnected while this was held. */
  #isBroken = false
  #isOver = false

  constructor(injector: FaultInjector) {
    this.#injector = injector
    this.#isHeld = injector.holdsNew
    injector.enter(this)
  }

  /** Destroys the connections, and ends this. */
  abstract cut(): void

  /** Sends the request to the server. Returns the connection to it. */
  protected abstract forward(): { destroy(): unknown }

  protected get isHeld(): boolean {
    return this.#isHeld
  }

  protected get isOver(): boolean {
    return this.#isOver
  }

  /** Forwards this unless it is held. To be called once, by the constructor. */
  protected begin(): void {
    if (!this.#isHeld) this.#upstream = this.forward()
  }

  protected addFlow(flow: Flow): void {
    this.#flows.push(flow)
  }

  hold(): void {
    this.#isHeld = true
    for (const flow of this.#flows) flow.hold()
  }

  release(): void {
    if (!this.#isHeld) return
    this.#isHeld = false
    if (this.#isBroken) this.cut()
    else if (this.#upstream === undefined) this.#upstream = this.forward()
    else for (const flow of this.#flows) flow.release()
  }

  /** The client disconnected. */
  protected clientClosed(): void {
    this.#isBroken = true
    if (!this.#isHeld) this.end()
  }

  /** The connection to the server broke. While held, the client does not notice. */
  protected serverBroke(): void {
    if (this.#isHeld) this.#isBroken = true
    else this.cut()
  }

  protected end(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#injector.leave(this)
    for (const flow of this.#flows) flow.stop()
    this.#upstream?.destroy()
  }
}
