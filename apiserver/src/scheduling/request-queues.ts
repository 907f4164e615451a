import { type Clock, systemClock } from '@setpoint/controller-runtime'
import type { CancelTimer } from '@setpoint/controller-runtime/internal'
import { type BodyBounds, BodyMemory } from './body-memory.ts'
import { ClassQueue, type QueuedRequest } from './class-queue.ts'
import { FairOrder } from './fair-order.ts'
import { type IdentityKind, type RequestClass, requestClassNames } from './request-class.ts'

export const fairnessDefaults = Object.freeze({
  /** Milliseconds for requests in one turn of the event loop. Requests that arrive later in the turn wait. */
  turnMs: 6,
  /** Requests that are admitted in one such turn: some 15 µs each at least. */
  requestsPerTurn: 256,
  /**
   * Turns of the event loop from one that serves waiting requests to the next. In the turns between, connections are
   * accepted, one in each, and requests arrive and are put in order.
   */
  turns: 16,
  /**
   * Milliseconds of these turns. Long ones, of work that does not wait in queues, leave a third of the time to
   * requests.
   */
  pauseMs: 12,
  /**
   * Checks that a request may wait for, and milliseconds between two of them: 15 s, as in Kubernetes. After that it
   * gets
   * 429. Checks are counted, so that a process that was suspended serves requests instead of refusing all of them.
   */
  waitChecks: 15,
  checkMs: 1_000,
  /** Requests of a class that wait. Each holds its socket and headers, some 5 KB, but no body. */
  waiting: 10_000,
  /** Bytes of the smallest body that waits for a turn of its own to be parsed: some 0.5 ms. */
  largeBody: 16 * 1024,
  /** Bytes of bodies that arrive or belong to requests under way: 85 of the largest in all, 21 of one identity. */
  bodies: Object.freeze({ bytes: 256 * 1024 * 1024, bytesPerIdentity: 64 * 1024 * 1024 }),
  /** The same for routes of plugins. A handler that never returns must not hold the memory of other requests. */
  routeBodies: Object.freeze({ bytes: 128 * 1024 * 1024, bytesPerIdentity: 32 * 1024 * 1024 }),
})

/** Who sends a request of a class. */
export interface Party {
  readonly class: RequestClass
  readonly identity: string
  readonly kind: IdentityKind
  /** Its connection, undefined for a caller in this process. */
  readonly connection?: object
}

/** Counts of one class and kind of identity. */
interface RequestTally {
  dispatched: number
  /** Refused because too many wait, refused after waiting too long, and withdrawn because the client left. */
  full: number
  late: number
  cancelled: number
  /** Refused while their bodies arrived, because bodies hold too many bytes. */
  bodies: number
}

/**
 * Shares the process between identities. While requests are served within a turn of the event loop, a request costs a
 * check and a counter. As soon as a turn takes longer, further requests wait in the queues of their classes:
 *
 *     arrives ──turn has time left──────────────────▶ admitted
 *        ├────▶ waiting ──the turn of its identity──▶ admitted
 *        │         └─────15 s, or the client leaves─▶ refused
 *        └──queue full─▶ refused with 429
 *
 * Classes take turns, and so do the identities of a class. The time that a request takes until its first pause is
 * measured and charged to both, so expensive requests are served less often.
 */
export class RequestQueues {
  readonly bodies: BodyMemory
  readonly routeBodies: BodyMemory
  readonly #clock: Clock
  readonly #queues: ReadonlyMap<RequestClass, ClassQueue>
  readonly #tallies = new Map<RequestClass, Map<IdentityKind, RequestTally>>()
  readonly #order = new FairOrder<ClassQueue>()
  /** Requests wait from this time on; undefined before the first request of a turn. */
  #turnEnds: number | undefined
  /** True while requests wait. */
  #isBusy = false
  /** The turns left until waiting requests are served, and the time when they are served at the latest. */
  #turnsLeft = 0
  #pauseEnds = 0
  /** The waiting request that was admitted last, whose time is being measured. */
  #measured: { queue: ClassQueue; identity: string; since: number } | undefined
  #checks = 0
  #cancelCheck: CancelTimer | undefined
  /** Called with the class, kind and seconds of every request that has waited and was admitted. */
  onWaited: (requestClass: string, kind: string, seconds: number) => void = () => {}

  constructor({
    clock = systemClock,
    waiting = fairnessDefaults.waiting,
    bodies = fairnessDefaults.bodies,
    routeBodies = fairnessDefaults.routeBodies,
  }: { clock?: Clock; waiting?: number; bodies?: BodyBounds; routeBodies?: BodyBounds } = {}) {
    this.#clock = clock
    this.bodies = new BodyMemory(bodies)
    this.routeBodies = new BodyMemory(routeBodies)
    const queues = new Map<RequestClass, ClassQueue>()
    for (const each of requestClassNames) queues.set(each, new ClassQueue(each, waiting))
    this.#queues = queues
  }

  /** Requests that wait, of all classes. */
  get waiting(): number {
    let waiting = 0
    for (const queue of this.#queues.values()) waiting += queue.waiting
    return waiting
  }

  /** Returns every class with the number of requests that wait. */
  *loads(): Iterable<{ class: RequestClass; waiting: number }> {
    for (const [name, { waiting }] of this.#queues) yield { class: name, waiting }
  }

  *tallies(): Iterable<{ class: RequestClass; kind: IdentityKind; tally: RequestTally }> {
    for (const [name, kinds] of this.#tallies)
      for (const [kind, tally] of kinds) yield { class: name, kind, tally }
  }

  /** Counts a request that was refused while its body arrived. */
  countRefusedBody(party: Party): void {
    this.#tallyOf(party).bodies++
  }

  /** Admits a request at once if it need not wait. */
  passes(party: Party): boolean {
    if (this.#isBusy) return false
    const now = this.#clock.monotonic()
    if (this.#turnEnds === undefined) {
      this.#turnEnds = now + fairnessDefaults.turnMs
      setImmediate(this.#turnIsOver)
    } else if (now >= this.#turnEnds) return false
    this.#tallyOf(party).dispatched++
    return true
  }

  /**
   * Waits until a request is admitted.
   * @param hasLeft returns true once its caller has left. It is asked when it is the request's turn, and every second.
   * @throws ApiError 429, 504 if the caller has left
   */
  wait(party: Party, hasLeft: () => boolean): Promise<void> {
    const { identity } = party
    const queue = this.#queueOf(party.class)
    const tally = this.#tallyOf(party)
    return new Promise((resolve, reject) => {
      const since = this.#clock.monotonic()
      const request: QueuedRequest = {
        identity,
        connection: party.connection,
        arrivedAt: this.#checks,
        hasLeft,
        admitted: () => {
          tally.dispatched++
          this.onWaited(party.class, party.kind, (this.#clock.monotonic() - since) / 1000)
          resolve()
        },
        refused: (why, reason) => {
          tally[reason]++
          reject(why)
        },
      }
      try {
        queue.push(request)
      } catch (error) {
        tally.full++
        throw error
      }
      this.#order.enter(queue)
      this.#serve()
      this.#cancelCheck ??= this.#clock.setTimeout(this.#check, fairnessDefaults.checkMs, { unref: true })
    })
  }

  readonly #turnIsOver = () => {
    if (!this.#isBusy) this.#turnEnds = undefined
  }

  /** Begins to serve waiting requests, unless it has begun. */
  #serve(): void {
    if (this.#isBusy || this.waiting === 0) return
    this.#isBusy = true
    this.#turnsLeft = fairnessDefaults.turns
    this.#pauseEnds = this.#clock.monotonic() + fairnessDefaults.pauseMs
    setImmediate(this.#pause)
  }

  /** Passes turns to other work. */
  readonly #pause = () => {
    this.#turnsLeft--
    if (this.#turnsLeft > 0 && this.#clock.monotonic() < this.#pauseEnds) setImmediate(this.#pause)
    else this.#serveTurn()
  }

  /**
   * Node runs the callbacks of `setImmediate` one after another, and after each one everything that it has resolved. So
   * the time from one to the next is what the request between them has taken.
   */
  #serveTurn(): void {
    // They run in the next turn. Its time for requests begins with the first of them, after whatever comes before it.
    this.#turnEnds = undefined
    const requests = Math.min(this.waiting, fairnessDefaults.requestsPerTurn)
    for (let n = 0; n < requests; n++) setImmediate(this.#admitNext)
    setImmediate(this.#endTurn)
  }

  readonly #admitNext = () => {
    const now = this.#measure()
    this.#turnEnds ??= now + fairnessDefaults.turnMs
    if (now >= this.#turnEnds) return
    const queue = this.#order.next()
    const request = queue?.take()
    if (queue === undefined) return
    this.#order.served(queue)
    if (queue.waiting === 0) this.#order.leave(queue)
    if (request === undefined) return
    this.#measured = { queue, identity: request.identity, since: now }
    request.admitted()
  }

  readonly #endTurn = () => {
    this.#measure()
    this.#turnEnds = undefined
    this.#isBusy = false
    this.#serve()
  }

  /** Charges the time of the request that was admitted last. Returns the present. */
  #measure(): number {
    const now = this.#clock.monotonic()
    if (this.#measured !== undefined) {
      const { queue, identity, since } = this.#measured
      this.#measured = undefined
      queue.charge(identity, now - since)
      this.#order.charge(queue, now - since)
    }
    return now
  }

  readonly #check = () => {
    this.#cancelCheck = undefined
    const { waitChecks, checkMs } = fairnessDefaults
    this.#checks++
    for (const queue of this.#queues.values()) {
      if (queue.waiting === 0) continue
      queue.expire(this.#checks - waitChecks, (waitChecks * checkMs) / 1000)
      if (queue.waiting === 0) this.#order.leave(queue)
    }
    this.#serve()
    if (this.waiting > 0) this.#cancelCheck = this.#clock.setTimeout(this.#check, checkMs, { unref: true })
  }

  #queueOf(name: RequestClass): ClassQueue {
    const queue = this.#queues.get(name)
    if (queue === undefined) throw new RangeError(`no class ${name}`)
    return queue
  }

  #tallyOf({ class: name, kind }: Party): RequestTally {
    let kinds = this.#tallies.get(name)
    if (kinds === undefined) {
      kinds = new Map()
      this.#tallies.set(name, kinds)
    }
    let tally = kinds.get(kind)
    if (tally === undefined) {
      tally = { dispatched: 0, full: 0, late: 0, cancelled: 0, bodies: 0 }
      kinds.set(kind, tally)
    }
    return tally
  }
}
