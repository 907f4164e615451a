import { toRevision } from '@setpoint/controller-runtime/api'
import type { WorldEvent } from './event-heap.ts'
import type { Fault } from './fault.ts'
import type { Network } from './network.ts'
import type { WorldNode } from './node.ts'
import type { Scheduler } from './scheduler.ts'
import type { StoreCore } from './store-core.ts'
import type { StoreService } from './store-service.ts'
import type { WorldProcess } from './world-process.ts'

/** Makes faults happen, and ends them. */
export class Faults {
  readonly #scheduler: Scheduler
  readonly #core: StoreCore
  readonly #service: StoreService
  readonly #network: Network
  readonly #processes: readonly WorldProcess[]
  readonly #nodeOf: (name: string) => WorldNode | undefined
  readonly #operator: WorldNode
  readonly #restarts = new Set<WorldEvent>()
  readonly #touched = new Set<WorldNode>()
  readonly pauses: { node: string; at: number; until: number }[] = []

  constructor(parts: {
    scheduler: Scheduler
    core: StoreCore
    service: StoreService
    network: Network
    processes: readonly WorldProcess[]
    /** Returns a running node. */
    nodeOf(name: string): WorldNode | undefined
  }) {
    this.#scheduler = parts.scheduler
    this.#core = parts.core
    this.#service = parts.service
    this.#network = parts.network
    this.#processes = parts.processes
    this.#nodeOf = parts.nodeOf
    this.#operator = parts.scheduler.node('operator')
  }

  /** Faults of nodes that do not run do nothing. */
  inject(fault: Fault): void {
    switch (fault.type) {
      case 'kill':
        this.#processOf(fault.node)?.kill()
        if (fault.forMs !== undefined) this.#startLater(fault.node, fault.forMs)
        return
      case 'restart':
        this.#processOf(fault.node)?.kill()
        this.#processOf(fault.node)?.start()
        return
      case 'pause':
        this.#change(fault.node, node => {
          const at = this.#scheduler.now
          node.pausedUntil = Math.max(node.pausedUntil, at + fault.forMs)
          this.pauses.push({ node: fault.node, at, until: node.pausedUntil })
        })
        return
      case 'clock':
        this.#change(fault.node, ({ clock }) => {
          if (fault.jumpMs !== undefined) clock.jump(fault.jumpMs)
          if (fault.rate !== undefined) clock.set(this.#scheduler.now, fault.rate)
        })
        return
      case 'cut':
        this.#network.cut(fault.node, fault.other)
        return
      case 'cutAfter':
        this.#network.breakAfter(fault.node, fault.direction, fault.bytes)
        return
      case 'partition':
        this.#network.part(fault.node, fault.other, fault.forMs)
        return
      case 'netLatency':
        this.#network.slowDown(fault.maxMs, fault.forMs)
        return
      case 'storeLatency':
        this.#service.slowDown(fault.node, fault.maxMs, fault.forMs)
        return
      case 'loseResponses':
        this.#service.lose(fault.node, fault.probability, fault.forMs)
        return
      case 'leaderChange':
        this.#service.changeLeader(fault.forMs)
        return
      case 'lag':
        this.#service.lag(fault.node, fault.byMs, fault.forMs)
        return
      case 'compact':
        this.#core.compact(toRevision(Math.max(0, this.#core.revision - fault.keep)))
        return
      case 'full':
        this.#service.fill(fault.forMs)
        return
      case 'backUp':
        this.#core.backUp()
        return
      case 'restore':
        this.#restore(fault.backup)
        return
      case 'putBack':
        this.#putBack(fault.forgotten)
        return
    }
  }

  #putBack(forgotten: string | undefined): void {
    if (!this.#core.putBack()) return
    const stopped = this.#processes.filter(({ name }) => name !== forgotten)
    for (const each of stopped) each.kill()
    for (const link of this.#service.links) link.replaced()
    for (const each of stopped) each.start()
  }

  /**
   * Ends all faults but pauses, also of clocks, and starts what was killed. After a restore servers go on only if started
   * again. Returns when the last process that stands still goes on.
   */
  heal(): number {
    let pausedUntil = 0
    for (const restart of this.#restarts) restart.isCancelled = true
    this.#restarts.clear()
    this.#network.heal()
    this.#service.heal()
    for (const node of this.#touched) {
      // Its end cannot change: what waits for it has to stay before what comes.
      pausedUntil = Math.max(pausedUntil, node.pausedUntil)
      node.clock.correct(this.#scheduler.now)
    }
    this.#touched.clear()
    for (const each of this.#processes) {
      if (each.isOfEarlierStore) each.kill()
      each.start()
    }
    return pausedUntil
  }

  #restore(backup: number | undefined): void {
    if (!this.#core.restore(backup)) return
    for (const link of this.#service.links) link.replaced()
  }

  #change(name: string, change: (node: WorldNode) => void): void {
    const node = this.#nodeOf(name)
    if (node === undefined) return
    this.#touched.add(node)
    change(node)
  }

  #processOf(name: string): WorldProcess | undefined {
    return this.#processes.find(each => each.name === name)
  }

  #startLater(name: string, forMs: number): void {
    const restart = this.#scheduler.schedule(this.#operator, forMs, () => {
      this.#restarts.delete(restart)
      this.#processOf(name)?.start()
    })
    this.#restarts.add(restart)
  }
}
