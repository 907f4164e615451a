import { ApiError } from '@setpoint/controller-runtime/api'
import { FairOrder, type Share } from './fair-order.ts'
import type { ClassLimits } from './request-class.ts'

/** Seconds of the `Retry-After` of a refusal, as in Kubernetes. */
export const retryAfterSeconds = 1

/** A request in a queue. */
export interface QueuedRequest {
  readonly identity: string
  /** The connections of an identity take turns, too. */
  readonly connection: object | undefined
  /** The number of checks before its arrival. */
  readonly arrivedAt: number
  /** Returns true if its client no longer waits for the response. */
  readonly hasLeft: () => boolean
  /** One of the two is called once. */
  readonly admitted: () => void
  readonly refused: (why: ApiError, reason: 'full' | 'late' | 'cancelled') => void
}

/** The requests of one identity in a class. */
interface Flow extends Share {
  readonly identity: string
  /** By connection, the next one first; and of each in the order of arrival. */
  readonly waiting: Map<object | undefined, Set<QueuedRequest>>
  count: number
}

/**
 * The requests of one class that wait. Identities take turns, by the processor time of their requests. The connections of
 * one identity take turns by requests, so that one program does not hold up another with the same credentials.
 *
 * When too many requests of an identity wait, the connection with the most loses one. So a program with few requests is not
 * refused because another one has many.
 */
export class ClassQueue implements Share {
  readonly name: string
  time = 0
  readonly #limits: ClassLimits
  /** Identities with requests that wait, or with time charged while others wait. */
  readonly #flows = new Map<string, Flow>()
  readonly #order = new FairOrder<Flow>()
  #waiting = 0

  constructor(name: string, limits: ClassLimits) {
    this.name = name
    this.#limits = limits
  }

  get waiting(): number {
    return this.#waiting
  }

  /** @throws ApiError 429 when too many requests wait */
  push(request: QueuedRequest): void {
    const { waiting, waitingPerIdentity } = this.#limits
    const known = this.#flows.get(request.identity)
    if (known !== undefined && known.count >= waitingPerIdentity) this.#makeRoom(known, request.connection)
    if (this.#waiting >= waiting) throw this.#tooMany(`${this.#waiting} wait`)
    const flow = this.#flowOf(request.identity)
    const ofConnection = flow.waiting.get(request.connection)
    if (ofConnection === undefined) flow.waiting.set(request.connection, new Set([request]))
    else ofConnection.add(request)
    flow.count++
    this.#waiting++
    this.#order.enter(flow)
  }

  /**
   * Refuses the oldest request of the connection with the most.
   * @throws ApiError 429 if the given connection has its share of the requests that may wait
   */
  #makeRoom(flow: Flow, connection: object | undefined): void {
    const why = this.#tooMany(`${flow.count} of ${JSON.stringify(flow.identity)} wait`)
    const own = flow.waiting.get(connection)?.size ?? 0
    let most: ReadonlySet<QueuedRequest> = new Set()
    // Without this comparison, a flood would pay for the search with each request.
    if (own < Math.floor(flow.count / flow.waiting.size))
      for (const each of flow.waiting.values()) if (each.size > most.size) most = each
    const [oldest] = most
    if (oldest === undefined) throw why
    this.#remove(flow, oldest)
    oldest.refused(why, 'full')
  }

  #remove(flow: Flow, request: QueuedRequest): void {
    const ofConnection = flow.waiting.get(request.connection)
    if (ofConnection === undefined || !ofConnection.delete(request)) return
    flow.waiting.delete(request.connection)
    if (ofConnection.size > 0) flow.waiting.set(request.connection, ofConnection)
    flow.count--
    this.#waiting--
    if (flow.count === 0) this.#order.leave(flow)
    if (this.#waiting > 0) this.#forget(flow)
    else for (const each of [...this.#flows.values()]) this.#forget(each)
  }

  /** Removes the next request. Refuses it and returns undefined if its caller has left. */
  take(): QueuedRequest | undefined {
    const flow = this.#order.next()
    const request = flow && nextOf(flow)
    if (flow === undefined || request === undefined) return undefined
    this.#order.served(flow)
    this.#remove(flow, request)
    if (!request.hasLeft()) return request
    request.refused(callerLeft(), 'cancelled')
    return undefined
  }

  /** Charges processor time to an identity. */
  charge(identity: string, ms: number): void {
    const flow = this.#flows.get(identity)
    if (flow !== undefined) this.#order.charge(flow, ms)
  }

  /** Refuses the requests that arrived before this check, after so many seconds, and those whose callers have left. */
  expire(check: number, seconds: number): void {
    for (const flow of [...this.#flows.values()]) {
      for (const request of [...flow.waiting.values()].flatMap(each => [...each])) {
        const isLate = request.arrivedAt < check
        if (!isLate && !request.hasLeft()) continue
        this.#remove(flow, request)
        if (isLate) request.refused(this.#tooMany(`this one has waited for ${seconds} s`), 'late')
        else request.refused(callerLeft(), 'cancelled')
      }
    }
  }

  #tooMany(why: string): ApiError {
    return new ApiError('TooManyRequests', `too many ${this.name} requests: ${why}`, { retryAfterSeconds })
  }

  #flowOf(identity: string): Flow {
    let flow = this.#flows.get(identity)
    if (flow === undefined) {
      flow = { identity, waiting: new Map(), count: 0, time: 0 }
      this.#flows.set(identity, flow)
    }
    return flow
  }

  /** Forgets an idle identity. While requests wait, the time that it has used is kept, of as many as may wait. */
  #forget(flow: Flow): void {
    if (this.#waiting > 0 && this.#flows.size <= this.#limits.waiting) return
    if (flow.count === 0) this.#flows.delete(flow.identity)
  }
}

function callerLeft(): ApiError {
  return new ApiError('Timeout', 'the client closed the connection')
}

function nextOf({ waiting }: Flow): QueuedRequest | undefined {
  for (const ofConnection of waiting.values()) for (const request of ofConnection) return request
  return undefined
}
