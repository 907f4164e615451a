import { Clients } from './clients.ts'
import type { Call, History } from './history.ts'
import { isFromMemory, overrun } from './judges/index.ts'
import { leases, resources } from './kinds.ts'
import { CallLog } from './log.ts'
import type { Action } from './plan.ts'
import { definitionEnds, storedCommits, storedRecords } from './stored-commits.ts'
import type { World } from './world/world.ts'

interface LifeOptions {
  readonly servers: number
  /** The release that all servers serve in the end. */
  readonly lastRelease: number
  /** True if the plan has no faults. */
  readonly isCalm: boolean
}

/**
 * Clients and the record of what they do, for as long as a version means one state: until the files of an earlier store are
 * put back. Then the clients are stopped, and others begin, which know nothing.
 */
export class RecordedLife {
  readonly #world: World
  readonly #options: LifeOptions
  readonly #log: CallLog
  readonly #isLater: boolean
  readonly #clients: Clients
  readonly #compactions: { at: number; revision: number }[] = []
  readonly #restores: { at: number; revision: number }[] = []

  /** @param earlier the log of the life before */
  constructor(world: World, options: LifeOptions, earlier?: CallLog) {
    this.#isLater = earlier !== undefined
    const log = earlier?.next() ?? new CallLog()
    this.#world = world
    this.#options = options
    this.#log = log
    this.#clients = new Clients(world, log, options.servers)
  }

  play(client: number, server: number, action: Action): Promise<void> {
    return this.#clients.play(client, server, action)
  }

  /** The store has dropped its history up to a revision. */
  compacted(revision: number): void {
    this.#compactions.push({ at: this.#world.now(), revision })
  }

  /** The store was restored just now. All earlier versions count as compacted. */
  restored(): void {
    const restore = { at: this.#world.now(), revision: this.#world.store.revision }
    this.#restores.push(restore)
    this.#compactions.push(restore)
  }

  /** Stops the clients. */
  close(): void {
    this.#clients.close()
  }

  /** Returns the record of the life that begins just now, because the files of an earlier store were put back. */
  next(): RecordedLife {
    const next = new RecordedLife(this.#world, this.#options, this.#log)
    next.restored()
    return next
  }

  /** Returns what has happened, where nobody waits for responses any more. */
  ended(): History {
    const at = this.#world.now()
    const stopped = (call: Call): Call =>
      call.outcome.type === 'pending' ? { ...call, outcome: { type: 'unknown', at } } : call
    const history = this.historyAt(Number.POSITIVE_INFINITY)
    return { ...history, calls: history.calls.map(stopped), watches: [...history.watches] }
  }

  historyAt(healedAt: number): History {
    const times = { restores: this.#restores, starts: this.#world.starts }
    return {
      ...times,
      tokens: this.#world.tokens,
      pauses: this.#world.pauses,
      // What a server that was not stopped has in memory is of the life before.
      calls: this.#isLater ? this.#log.calls.filter(call => !isOfMemory(call, times)) : this.#log.calls,
      watches: this.#log.watches,
      commits: storedCommits(this.#world.store, Object.values(resources)),
      records: storedRecords(this.#world.store, [resources.gadgets, resources.parts, resources.gears]),
      definitionEnds: definitionEnds(this.#world.store),
      served: this.#world.served,
      leases: storedCommits(this.#world.store, [leases]),
      leaderWrites: this.#world.leaderWrites,
      lastRelease: this.#options.lastRelease,
      isCalm: this.#options.isCalm,
      compactions: this.#compactions,
      healedAt,
      endedAt: this.#world.now(),
    }
  }
}

/** Returns whether a read asked for what a server has in memory that was not started since the store was replaced. */
function isOfMemory(call: Call, times: Pick<History, 'restores' | 'starts'>): boolean {
  const { server, at, outcome } = call
  if (outcome.type !== 'responded' || !isFromMemory(call)) return false
  // It may have been started again before its response arrived.
  return overrun(times, { server, from: at, to: at }) !== undefined
}
