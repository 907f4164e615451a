import { ApiError, type Selector } from '@setpoint/controller-runtime/api'
import { echoName } from '@setpoint/controller-runtime/internal'

/** How many connections may watch. A connection with several watches counts once. */
export interface WatchLimits {
  /** Of all users together. */
  readonly connections: number
  readonly connectionsPerUser: number
}

export const watchLimitDefaults: WatchLimits = Object.freeze({
  /** An idle one costs some 7 KB of the process and as much of the system: 300 MB for all together. */
  connections: 20_000,
  /** Half of all, so that a user who leaks watches leaves room for others. */
  connectionsPerUser: 10_000,
})

/** Bounds of the subscriptions on these connections. A connection with a single watch has one subscription. */
export const subscriptionLimits = Object.freeze({
  /** Subscriptions of one socket: every kind of a large installation, several times. */
  subscriptions: 1_000,
  /** The same of one user and of all together: some 2 KB each. */
  subscriptionsPerUser: 20_000,
  subscriptionsInAll: 60_000,
  /** Bytes of selectors (`selectorBytes`) of one socket, of one user and of all together. */
  selectorBytes: 1024 * 1024,
  selectorBytesPerUser: 16 * 1024 * 1024,
  selectorBytesInAll: 64 * 1024 * 1024,
  /**
   * Bytes that each term and each value of a selector counts as besides its text, for the memory that it takes parsed.
   */
  termBytes: 64,
})

/** Why a request is refused past a bound of all users together. It does not tell one user how much others have. */
const usedUp = 'the total of the server is used up'

/** The `Retry-After` of a refusal. */
const retryAfterSeconds = 5

/** What a selector counts as: its text, and `termBytes` for each term and value. */
export function selectorBytes({ labels, fields }: Selector): number {
  let bytes = 0
  for (const terms of [labels, fields]) {
    for (const { key, values } of terms) {
      bytes += Buffer.byteLength(key) + subscriptionLimits.termBytes * (1 + values.length)
      for (const value of values) bytes += Buffer.byteLength(value)
    }
  }
  return bytes
}

/** What one socket, one user or all users together have open. */
interface Usage {
  connections: number
  subscriptions: number
  bytes: number
}

/** Counts the connections that watch and their subscriptions, and refuses those past a bound. */
export class WatchConnections {
  readonly #limits: WatchLimits
  readonly #byUser = new Map<string, Usage>()
  readonly #all: Usage = { connections: 0, subscriptions: 0, bytes: 0 }

  constructor(limits: WatchLimits = watchLimitDefaults) {
    this.#limits = limits
  }

  /** Connections that watch. */
  get open(): number {
    return this.#all.connections
  }

  /** Subscriptions of all connections. */
  get subscriptions(): number {
    return this.#all.subscriptions
  }

  /** Counts one more connection. @throws ApiError 429 past a bound */
  admit(user: string): WatchPlace {
    const { connections, connectionsPerUser } = this.#limits
    const ofUser = this.#byUser.get(user) ?? { connections: 0, subscriptions: 0, bytes: 0 }
    if (ofUser.connections >= connectionsPerUser)
      throw tooMany(`${user} has ${ofUser.connections} connections that watch`)
    if (this.#all.connections >= connections) throw tooMany(usedUp)
    this.#byUser.set(user, ofUser)
    this.#all.connections++
    ofUser.connections++
    return new WatchPlace(user, ofUser, this.#all, () => {
      if (--ofUser.connections === 0) this.#byUser.delete(user)
      this.#all.connections--
    })
  }
}

/** One connection that watches, and its subscriptions. */
export class WatchPlace {
  readonly #user: string
  readonly #ofUser: Usage
  readonly #inAll: Usage
  readonly #released: () => void
  readonly #ofSocket: Usage = { connections: 1, subscriptions: 0, bytes: 0 }
  #hasLeft = false

  constructor(user: string, ofUser: Usage, inAll: Usage, released: () => void) {
    this.#user = user
    this.#ofUser = ofUser
    this.#inAll = inAll
    this.#released = released
  }

  /**
   * Counts one more subscription, until the returned function is called.
   * @throws ApiError 429 past a bound
   */
  subscribe(selector: Selector): () => void {
    const bytes = selectorBytes(selector)
    const limits = subscriptionLimits
    this.#check('this connection has', this.#ofSocket, bytes, limits.subscriptions, limits.selectorBytes)
    const { subscriptionsPerUser, selectorBytesPerUser, subscriptionsInAll, selectorBytesInAll } = limits
    this.#check(
      `${echoName(this.#user)} has`,
      this.#ofUser,
      bytes,
      subscriptionsPerUser,
      selectorBytesPerUser,
    )
    if (this.#inAll.subscriptions >= subscriptionsInAll || this.#inAll.bytes + bytes > selectorBytesInAll)
      throw tooMany(usedUp)
    this.#add(1, bytes)
    let isReleased = false
    return () => {
      if (!isReleased && !this.#hasLeft) this.#add(-1, -bytes)
      isReleased = true
    }
  }

  /** The connection has closed, and its subscriptions with it. Idempotent. */
  leave(): void {
    if (this.#hasLeft) return
    this.#hasLeft = true
    const { subscriptions, bytes } = this.#ofSocket
    this.#add(-subscriptions, -bytes)
    this.#released()
  }

  #check(whose: string, usage: Usage, bytes: number, most: number, mostBytes: number): void {
    if (usage.subscriptions >= most) throw tooMany(`${whose} ${usage.subscriptions} watches`)
    if (usage.bytes + bytes > mostBytes)
      throw tooMany(`${whose} ${usage.bytes} bytes of selectors and may have ${mostBytes}, not ${bytes} more`)
  }

  #add(subscriptions: number, bytes: number): void {
    for (const usage of [this.#ofSocket, this.#ofUser, this.#inAll]) {
      usage.subscriptions += subscriptions
      usage.bytes += bytes
    }
  }
}

export function tooMany(what: string): ApiError {
  return new ApiError('TooManyRequests', `too many watches: ${what}`, { retryAfterSeconds })
}
