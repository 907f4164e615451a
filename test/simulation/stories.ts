import type { Random } from '../soak/random.ts'
import { definitionOfGears } from './kinds.ts'
import type { Action, Step } from './plan.ts'
import { creation, deletion } from './plan-definitions.ts'
import type { Fault } from './world/fault.ts'

/** Milliseconds until the collector has discovered a kind, or that it is no longer served. */
const discoveryMs = 36_000

/** What a story may involve. */
export interface Cast {
  readonly servers: number
  readonly controllers: number
  readonly clients: number
}

/**
 * Returns steps that make things meet which seldom meet by chance. Each story was a defect once, or is the reason for a
 * guard in the product.
 */
export function storyOf(random: Random, cast: Cast): Step[] {
  const told = new Told(random, cast)
  told.wait(random.below(random.pick([1_000, 10_000])))
  random.pick(stories)(told)
  return told.steps
}

/** The steps of a story, one after another. */
class Told {
  readonly steps: Step[] = []
  readonly random: Random
  readonly cast: Cast
  /** Milliseconds after all servers have become ready. */
  at = 0

  constructor(random: Random, cast: Cast) {
    this.random = random
    this.cast = cast
  }

  wait(ms: number): void {
    this.at += ms
  }

  inject(fault: Fault): void {
    this.steps.push({ at: this.at, fault })
  }

  ask(action: Action, client = this.random.below(this.cast.clients)): void {
    this.steps.push({ at: this.at, client, server: this.random.below(this.cast.servers), action })
  }

  askServer(server: number, action: Action): void {
    this.steps.push({ at: this.at, client: this.random.below(this.cast.clients), server, action })
  }

  server(): string {
    return `server-${this.random.below(this.cast.servers)}`
  }

  /** Writes an object, whether or not it exists. */
  write(of: 'gadgets' | 'parts', name: string, namespace?: string): void {
    const { random } = this
    const common = { size: random.below(3), note: `s${random.below(1_000)}` }
    // An apply takes away the fields that its manager no longer sends.
    const spec = of === 'gadgets' ? { ...common, email: `of-${name}` } : common
    const color = random.pick(['red', 'blue'])
    this.ask({ do: 'apply', of, name, namespace, spec, color, force: true })
  }
}

const stories: readonly ((told: Told) => void)[] = [
  orphansOfWhoIsBehind,
  namespaceCreatedAgain,
  namespaceGoneElsewhere,
  watcherThatWasAway,
  changesAtBookmarks,
  storePutBack,
  leaderThatStoodStill,
  ownerRestored,
  definitionRestored,
  ownersGoneWithDefinition,
  definitionUnseen,
]

/** The collector sees that an owner is deleted before it sees the owner's dependents. */
function orphansOfWhoIsBehind(told: Told): void {
  const { random } = told
  const owner = `g${random.below(5)}`
  const byMs = 300 + random.below(6_000)
  told.inject({ type: 'lag', node: told.server(), byMs, forMs: byMs + 1_000 })
  told.ask({ do: 'create', of: 'gadgets', name: owner, spec: {}, color: 'red' })
  told.wait(60 + random.below(200))
  for (let n = random.below(3); n >= 0; n--)
    told.ask({
      do: 'create',
      of: 'parts',
      namespace: 'default',
      name: `p${random.below(5)}`,
      spec: {},
      color: 'blue',
      owners: [owner],
    })
  told.wait(30 + random.below(200))
  const propagation = random.pick(['Orphan', 'Orphan', 'Foreground'] as const)
  told.ask({ do: 'delete', of: 'gadgets', name: owner, propagation })
}

/** Servers empty a deleted namespace, one of them slowly, while it is created again and gets objects. */
function namespaceCreatedAgain(told: Told): void {
  const { random } = told
  const create: Action = { do: 'create', of: 'namespaces', name: 'room', spec: {}, color: 'red' }
  told.ask(create)
  told.wait(50)
  for (let n = random.below(3); n >= 0; n--) told.write('parts', `p${n}`, 'room')
  told.wait(50)
  told.inject({ type: 'storeLatency', node: told.server(), maxMs: 800, forMs: 8_000 })
  told.ask({ do: 'delete', of: 'namespaces', name: 'room' })
  for (let n = 0; n < 20; n++) {
    told.wait(random.below(400))
    told.ask(create)
    told.wait(random.below(20))
    told.write('parts', `p${random.below(5)}`, 'room')
  }
}

/** A server that is behind gets objects for a namespace that has gone on another one. */
function namespaceGoneElsewhere(told: Told): void {
  const { random } = told
  told.ask({ do: 'create', of: 'namespaces', name: 'room', spec: {}, color: 'red' })
  told.wait(300)
  const byMs = 1_000 + random.below(5_000)
  told.inject({ type: 'lag', node: told.server(), byMs, forMs: byMs })
  told.ask({ do: 'delete', of: 'namespaces', name: 'room' })
  for (let n = 0; n < 12; n++) {
    told.wait(random.below(80))
    told.write('parts', `p${random.below(5)}`, 'room')
  }
}

/** A watcher is cut off while what it misses is compacted and all servers start again. */
function watcherThatWasAway(told: Told): void {
  const { random, cast } = told
  const client = random.below(cast.clients)
  const of = random.pick(['gadgets', 'parts'] as const)
  const write = () => told.write(of, of === 'gadgets' ? 'g1' : 'p1', of === 'gadgets' ? undefined : 'default')
  told.ask({ do: 'watch', of, watcher: `away-${of}`, selection: {} }, client)
  write()
  told.wait(500)
  told.inject({ type: 'partition', node: `client-${client}`, forMs: 4_000 + random.below(6_000) })
  for (let n = random.below(4); n >= 0; n--) {
    told.wait(random.below(200))
    write()
  }
  told.wait(random.below(1_000))
  told.inject({ type: 'compact', keep: random.below(2) })
  for (let n = 0; n < cast.servers; n++) {
    told.wait(random.below(500))
    told.inject({ type: 'kill', node: `server-${n}`, forMs: 20 + random.below(500) })
  }
}

/** Changes arrive late at the moment at which servers send bookmarks, 45 s after their start. */
function changesAtBookmarks(told: Told): void {
  const { random } = told
  told.wait(Math.max(0, 40_000 - told.at))
  told.ask({ do: 'watch', of: 'gadgets', watcher: 'marked-gadgets', selection: {} })
  told.ask({ do: 'watch', of: 'parts', watcher: 'marked-parts', selection: {} })
  told.wait(3_000)
  told.inject({ type: 'lag', node: told.server(), byMs: 100 + random.below(2_000), forMs: 3_000 })
  for (let n = 0; n < 40; n++) {
    told.wait(random.below(120))
    if (random.chance(0.5)) told.write('gadgets', `g${random.below(5)}`)
    else told.write('parts', `p${random.below(5)}`, 'default')
  }
}

/**
 * Files of an earlier store are put back while one server is not stopped and stands still, or does not reach its clients. The
 * store has grown past what that server knows when it goes on.
 */
function storePutBack(told: Told): void {
  const { random } = told
  const write = () => told.write('gadgets', `g${random.below(3)}`)
  const writeSome = (count: number) => {
    for (let n = 0; n < count; n++) {
      write()
      told.wait(random.below(30))
    }
  }
  writeSome(random.below(4))
  told.inject({ type: 'backUp' })
  writeSome(1 + random.below(4))
  told.wait(50)
  const forgotten = told.server()
  const forMs = 1_000 + random.below(3_000)
  told.inject(
    random.chance(0.7)
      ? { type: 'pause', node: forgotten, forMs }
      : { type: 'lag', node: forgotten, byMs: 3_000, forMs },
  )
  told.wait(random.below(50))
  told.inject({ type: 'putBack', forgotten })
  told.wait(500)
  told.ask({ do: 'watch', of: 'gadgets', watcher: 'anew-gadgets', selection: {} })
  writeSome(3 + random.below(8))
  told.wait(random.below(forMs))
  for (let n = 0; n < 10; n++) {
    told.wait(random.below(400))
    if (random.chance(0.3)) write()
    else if (random.chance(0.5))
      told.ask({ do: 'list', of: 'gadgets', selection: {}, stale: random.chance(0.2) })
    else told.ask({ do: 'get', of: 'gadgets', name: `g${random.below(3)}`, stale: false })
  }
}

/** A leader stands still in the middle of its work, for longer than its lease. */
function leaderThatStoodStill(told: Told): void {
  const { random, cast } = told
  const families = [0, 1, 2, 3, 4]
  for (const n of families) told.ask({ do: 'create', of: 'gadgets', name: `g${n}`, spec: {}, color: 'red' })
  told.wait(100)
  for (const n of families)
    told.ask({
      do: 'create',
      of: 'parts',
      namespace: 'default',
      name: `p${n}`,
      spec: {},
      color: 'red',
      owners: [`g${n}`],
    })
  told.wait(200)
  for (const n of families) {
    told.ask({ do: 'delete', of: 'gadgets', name: `g${n}` })
    told.wait(random.below(4))
  }
  told.wait(random.below(8))
  told.inject({
    type: 'pause',
    node:
      cast.controllers === 0
        ? `server-${random.below(cast.servers)}`
        : `controllers-${random.below(cast.controllers)}`,
    forMs: 16_000 + random.below(8_000),
  })
}

/** A restore brings an owner back whose deletion the collector has seen, while the collector goes on. */
function ownerRestored(told: Told): void {
  const { random, cast } = told
  const finalizers = random.chance(0.5) ? { finalizers: ['sim.example.com/hold'] } : {}
  const owner = { of: 'gadgets', name: `g${random.below(5)}` } as const
  told.ask({ do: 'create', ...owner, spec: {}, color: 'red', ...finalizers })
  told.wait(100)
  for (let n = 0; n < 3; n++) {
    const part = { of: 'parts', namespace: 'default', name: `p${n}`, spec: {}, color: 'blue' } as const
    told.ask({ do: 'create', ...part, owners: [owner.name], ...finalizers })
  }
  told.wait(200)
  told.inject({ type: 'backUp' })
  told.wait(10)
  const propagation = random.pick(['Background', 'Foreground', 'Orphan'] as const)
  told.ask({ do: 'delete', ...owner, propagation })
  told.wait(random.below(random.pick([100, 2_000])))
  told.ask({ do: 'finalize', ...owner })
  told.wait(random.below(random.pick([100, 3_000])))
  told.inject({ type: 'restore' })
  for (let n = 0; n < cast.servers; n++) {
    told.wait(random.below(random.pick([20, 1_000])))
    told.inject({ type: 'restart', node: `server-${n}` })
  }
}

/**
 * A restore brings back an owner that went with its definition, while its dependent still waits for a finalizer. The collector
 * goes on, and discovers the kind of the owner again only later.
 */
function definitionRestored(told: Told): void {
  const { random, cast } = told
  const part = { of: 'parts', namespace: 'default', name: 'p0' } as const
  told.ask(creation)
  told.wait(discoveryMs)
  told.ask({ do: 'create', of: 'gears', name: 'r0', spec: {}, color: 'red' })
  told.wait(100)
  told.ask({
    do: 'create',
    ...part,
    spec: {},
    color: 'blue',
    owners: ['r0'],
    finalizers: ['sim.example.com/hold'],
  })
  told.wait(500)
  told.inject({ type: 'backUp' })
  told.wait(10)
  told.ask(deletion)
  told.wait(discoveryMs + random.below(20_000))
  told.inject({ type: 'restore' })
  for (let n = 0; n < cast.servers; n++) {
    told.wait(random.below(1_000))
    told.inject({ type: 'restart', node: `server-${n}` })
  }
}

/** Owners go with their definition. Where nothing goes wrong, the collector has known them and their dependents for long. */
function ownersGoneWithDefinition(told: Told): void {
  const { random } = told
  const families = Array.from({ length: 1 + random.below(4) }, (_, n) => n)
  told.ask(creation)
  told.wait(500)
  for (const n of families) told.ask({ do: 'create', of: 'gears', name: `r${n}`, spec: {}, color: 'red' })
  told.wait(random.below(40_000))
  for (const n of families) {
    const part = { of: 'parts', namespace: 'default', name: `p${n}`, spec: {}, color: 'red' } as const
    told.ask({ do: 'create', ...part, owners: [`r${n}`] })
  }
  told.wait(discoveryMs)
  told.ask(deletion)
}

/** A server that is behind is asked for a kind whose definition was seen established elsewhere, often for the second time. */
function definitionUnseen(told: Told): void {
  const { random, cast } = told
  const behind = random.below(cast.servers)
  const ahead = (behind + 1) % cast.servers
  const creationOf = (name: string) => ({ do: 'create', of: 'gears', name, spec: {}, color: 'red' }) as const
  if (random.chance(0.6)) {
    told.ask(creation)
    told.wait(400)
    told.ask({ ...creationOf('r0'), finalizers: ['sim.example.com/hold'] })
    told.wait(100)
    told.ask(deletion)
    told.wait(100)
    // It learns that no object may be created any more.
    told.askServer(behind, creationOf('r1'))
    told.wait(50)
  }
  // Requests wait for three seconds until it has caught up.
  const byMs = 300 + random.below(random.pick([2_000, 8_000]))
  told.inject({ type: 'lag', node: `server-${behind}`, byMs, forMs: 4_000 })
  // It serves the kind only some calls of the store after it has learnt of it.
  if (random.chance(0.5))
    told.inject({ type: 'storeLatency', node: `server-${behind}`, maxMs: 200, forMs: 6_000 })
  told.askServer(ahead, { do: 'finalize', of: 'gears', name: 'r0' })
  told.wait(200 + random.below(1_000))
  told.askServer(ahead, creation)
  told.wait(random.below(1_000))
  told.askServer(ahead, { do: 'get', of: 'definitions', name: definitionOfGears, stale: false })
  told.wait(20)
  told.askServer(behind, creationOf('r2'))
  told.askServer(behind, { do: 'get', of: 'gears', name: 'r2', stale: false })
}
