import type { WorldEvent } from './event-heap.ts'
import type { WorldNode } from './node.ts'
import type { Scheduler } from './scheduler.ts'
import type { SeededRandom } from './world.ts'

/** What arrives at one end of a connection. */
export interface PipeEnd {
  readonly node: WorldNode
  /** Takes bytes. Returns false if the end does not want more before `readOn`. */
  arrive(bytes: Buffer): boolean
  /** The other side has sent all it will. */
  finish(): void
  /** The connection is broken. */
  break(): void
}

interface Segment {
  readonly bytes: Buffer
  event: WorldEvent
}

/** How bytes travel between two nodes. */
export interface Route {
  /** Milliseconds that a segment which is sent now takes. */
  latency(from: WorldNode, to: WorldNode): number
}

export const pipeDefaults = Object.freeze({
  /** Bytes under way and unread, as in the buffers of two kernels, before a writer waits. */
  windowBytes: 256 * 1024,
  /** Probability that a segment arrives in two parts. */
  splits: 0.1,
})

/** One direction of a connection: bytes arrive in order, later, and in other pieces than they were sent. */
export class Pipe {
  readonly #scheduler: Scheduler
  readonly #random: SeededRandom
  readonly #route: Route
  readonly #from: WorldNode
  readonly #to: PipeEnd
  readonly #underWay: Segment[] = []
  #lastAt = 0
  #bytesUnderWay = 0
  #isHeld = false
  /** Arrived while the reader does not read. */
  readonly #unread: (Buffer | 'end')[] = []
  #waiting: (() => void) | undefined
  #isOver = false
  #isFinished = false
  #isDropped = false
  /** Bytes that may still arrive, until the connection breaks. */
  breaksAfter: number | undefined
  onBroken = () => {}
  /** Something was sent to an end that is gone: its kernel resets the connection. */
  onInVain = () => {}

  constructor(parts: {
    scheduler: Scheduler
    random: SeededRandom
    route: Route
    from: WorldNode
    to: PipeEnd
  }) {
    this.#scheduler = parts.scheduler
    this.#random = parts.random
    this.#route = parts.route
    this.#from = parts.from
    this.#to = parts.to
  }

  /** Sends bytes; calls back when more may be sent. */
  send(bytes: Buffer, sent: () => void): void {
    if (this.#isOver) {
      process.nextTick(sent)
      if (this.#isDropped) this.onInVain()
      return
    }
    const at =
      bytes.length > 1 && this.#random.chance(pipeDefaults.splits) ? this.#random.int(1, bytes.length - 1) : 0
    if (at > 0) this.#dispatch(bytes.subarray(0, at))
    this.#dispatch(bytes.subarray(at))
    this.#bytesUnderWay += bytes.length
    if (this.#bytesUnderWay <= pipeDefaults.windowBytes) process.nextTick(sent)
    else this.#waiting = sent
  }

  /** Sends the end, after all that was sent. */
  finish(): void {
    if (this.#isOver || this.#isFinished) return
    this.#isFinished = true
    this.#later(() => this.#arrived('end'))
  }

  /** The reader wants more. */
  readOn(): void {
    this.#isHeld = false
    for (let next = this.#unread.shift(); next !== undefined; next = this.#unread.shift()) {
      this.#hand(next)
      if (this.#isHeld) return
    }
  }

  /** Breaks this direction: some of the bytes under way arrive, then the end hears of it. */
  break(): void {
    if (this.#isOver) return
    this.#isOver = true
    const arriving = this.#random.int(0, this.#underWay.length)
    for (const { event } of this.#underWay.slice(arriving)) event.isCancelled = true
    this.#later(() => this.#to.break())
  }

  /** The end is gone: nothing arrives, and nobody is told. */
  drop(): void {
    this.#isDropped = !this.#isOver
    this.#isOver = true
  }

  #dispatch(bytes: Buffer): void {
    const event = this.#later(() => {
      this.#underWay.shift()
      this.#arrived(bytes)
    })
    this.#underWay.push({ bytes, event })
  }

  #later(run: () => void): WorldEvent {
    const { node } = this.#to
    const at = this.#scheduler.now + this.#route.latency(this.#from, node)
    this.#lastAt = Math.max(this.#lastAt, at)
    return this.#scheduler.scheduleAt(node, this.#lastAt, run)
  }

  #arrived(what: Buffer | 'end'): void {
    let arrived = what
    if (this.breaksAfter !== undefined && what !== 'end') {
      if (what.length >= this.breaksAfter) {
        arrived = what.subarray(0, this.breaksAfter)
        this.breaksAfter = undefined
        // Nothing may arrive behind the gap.
        for (const { event } of this.#underWay) event.isCancelled = true
        if (arrived.length > 0 && !this.#isHeld) this.#hand(arrived)
        this.onBroken()
        return
      }
      this.breaksAfter -= what.length
    }
    if (this.#isHeld) this.#unread.push(arrived)
    else this.#hand(arrived)
  }

  #hand(what: Buffer | 'end'): void {
    if (what === 'end') {
      this.#to.finish()
      return
    }
    this.#bytesUnderWay -= what.length
    if (!this.#to.arrive(what)) this.#isHeld = true
    const waiting = this.#waiting
    if (waiting === undefined || this.#bytesUnderWay > pipeDefaults.windowBytes / 2) return
    this.#waiting = undefined
    this.#scheduler.schedule(this.#from, this.#route.latency(this.#to.node, this.#from), waiting)
  }
}
