import { ApiError } from '@setpoint/controller-runtime/api'
import { quote, retryAfterSeconds } from '@setpoint/controller-runtime/internal'
import { FairOrder, type Share } from './fair-order.ts'

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
  size: number
}

/**
 * The requests of one class that wait. Identities take turns, by the processor time of their requests. The connections
 * of one identity take turns by requests, so that one program does not hold up another with the same credentials.
 *
 * When too many requests wait, the identity with the most loses one, and of its connections the one with the most. So a
 * request is refused only if its identity has at least an equal share of the queue: the limit divided by the identities
 * that wait.
 */
export class ClassQueue implements Share {
  readonly name: string
  time = 0
  readonly #limit: number
  /** Identities with requests that wait, or with time charged while others wait. */
  readonly #flows = new Map<string, Flow>()
  readonly #order = new FairOrder<Flow>()
  #waiting = 0

  /** @param limit the number of requests that may wait */
  constructor(name: string, limit: number) {
    this.name = name
    this.#limit = limit
  }

  get waiting(): number {
    return this.#waiting
  }

  /** @throws ApiError 429 if too many requests wait, and the identity has its share of them */
  push(request: QueuedRequest): void {
    if (this.#waiting >= this.#limit) this.#makeRoom(request)
    const flow = this.#flowOf(request.identity)
    const ofConnection = flow.waiting.get(request.connection)
    if (ofConnection === undefined) flow.waiting.set(request.connection, new Set([request]))
    else ofConnection.add(request)
    flow.size++
    this.#waiting++
    this.#order.enter(flow)
  }

  /** Refuses a waiting request in favour of the given one. @throws ApiError 429 to refuse the given one */
  #makeRoom({ identity, connection }: QueuedRequest): void {
    const own = this.#flows.get(identity)
    let flow = own
    let victims: ReadonlySet<QueuedRequest> | undefined
    if (isBelowShare(own?.size ?? 0, this.#waiting, this.#order.size + (own?.size ? 0 : 1))) {
      flow = largestOf(this.#flows.values())
      victims = largestOf(flow?.waiting.values() ?? [])
    } else if (own !== undefined) {
      const ofConnection = own.waiting.get(connection)
      if (isBelowShare(ofConnection?.size ?? 0, own.size, own.waiting.size + (ofConnection ? 0 : 1)))
        victims = largestOf(own.waiting.values())
    }
    const [oldest] = victims ?? []
    const why = this.#tooMany(
      `${this.#waiting} wait, ${flow?.size ?? 0} of ${quote(flow?.identity ?? identity)}`,
    )
    if (flow === undefined || oldest === undefined) throw why
    this.#remove(flow, oldest)
    oldest.refused(why, 'full')
  }

  #remove(flow: Flow, request: QueuedRequest): void {
    const ofConnection = flow.waiting.get(request.connection)
    if (ofConnection === undefined || !ofConnection.delete(request)) return
    flow.waiting.delete(request.connection)
    if (ofConnection.size > 0) flow.waiting.set(request.connection, ofConnection)
    flow.size--
    this.#waiting--
    if (flow.size === 0) this.#order.leave(flow)
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
      flow = { identity, waiting: new Map(), size: 0, time: 0 }
      this.#flows.set(identity, flow)
    }
    return flow
  }

  /** Forgets an idle identity. While requests wait, the time that it has used is kept, of as many as may wait. */
  #forget(flow: Flow): void {
    if (this.#waiting > 0 && this.#flows.size <= this.#limit) return
    if (flow.size === 0) this.#flows.delete(flow.identity)
  }
}

function callerLeft(): ApiError {
  return new ApiError('Timeout', 'the client closed the connection')
}

/** Returns true if one of several has less than its equal share. A flood never has, so it does not pay for a search. */
function isBelowShare(own: number, total: number, count: number): boolean {
  return own < Math.floor(total / count)
}

function largestOf<T extends { readonly size: number }>(all: Iterable<T>): T | undefined {
  let largest: T | undefined
  for (const each of all) if (largest === undefined || each.size > largest.size) largest = each
  return largest
}

function nextOf({ waiting }: Flow): QueuedRequest | undefined {
  for (const ofConnection of waiting.values()) for (const request of ofConnection) return request
  return undefined
}
