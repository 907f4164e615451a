import { Random } from '../soak/random.ts'
import type { Fields } from '../support/json.ts'
import type { Selection } from './history.ts'
import { type ResourceName, reader } from './kinds.ts'
import { definitionSteps, withGears } from './plan-definitions.ts'
import { inVersions, reloadsOf, slowReloads } from './plan-reloads.ts'
import { restoreOf } from './restore-steps.ts'
import { storyOf } from './stories.ts'
import { rotationOf, withTokens } from './token-steps.ts'
import type { Fault } from './world/fault.ts'
import type { WatchTransport } from './world/world.ts'

/** All that happens in one run, as plain data. The world's own choices come from the seed. */
export interface Plan {
  readonly seed: number
  readonly servers: number
  readonly controllers: number
  readonly steps: readonly Step[]
}

/** Something that a client does, or that goes wrong, at a time after all servers have become ready. */
export type Step =
  | FaultStep
  /** Installs a release of the plugin on a server, and reloads it there. */
  | { readonly at: number; readonly server: number; readonly reload: number }
  | { readonly at: number; readonly client: number; readonly server: number; readonly action: Action }

export interface FaultStep {
  readonly at: number
  readonly fault: Fault
}

interface Target {
  readonly of: ResourceName
  /** Default: the first one. */
  readonly version?: string | undefined
  readonly namespace?: string | undefined
  readonly name: string
}

export type Action =
  | (Target & {
      readonly do: 'create'
      readonly spec: Fields
      readonly color: string
      readonly finalizers?: readonly string[]
      /** The gadgets and gears that own it, as far as they are known. */
      readonly owners?: readonly string[] | undefined
    })
  /** `knows`: it starts from the object that the client saw last; otherwise it replaces everything. */
  | (Target & {
      readonly do: 'update'
      readonly spec: Fields
      readonly color: string
      readonly knows: boolean
      readonly versioned: boolean
    })
  | (Target & {
      readonly do: 'merge'
      readonly spec: Fields
      readonly color: string
      readonly versioned: boolean
    })
  | (Target & {
      readonly do: 'apply'
      readonly spec: Fields
      readonly color: string
      readonly force: boolean
    })
  /** Takes away all finalizers. */
  | (Target & { readonly do: 'finalize' })
  | (Target & {
      readonly do: 'delete'
      readonly precondition?: 'version' | 'uid' | undefined
      readonly propagation?: 'Background' | 'Foreground' | 'Orphan' | undefined
    })
  /** Changes the indexes of a definition. */
  | (Target & { readonly do: 'index'; readonly unique: 'email' | 'nothing' })
  | (Target & { readonly do: 'get'; readonly stale: boolean; readonly token?: string | undefined })
  | {
      readonly do: 'list'
      readonly of: ResourceName
      readonly version?: string | undefined
      readonly selection: Selection
      readonly limit?: number | undefined
      /** Time between two pages. */
      readonly pauseMs?: number | undefined
      /** Asks for the state of the last list of this kind that the client got. */
      readonly exact?: boolean | undefined
      readonly stale: boolean
      readonly token?: string | undefined
    }
  /** Opens a watch, and opens it again from where it was when it breaks, until `unwatch`. */
  | {
      readonly do: 'watch'
      readonly of: ResourceName
      readonly version?: string | undefined
      readonly watcher: string
      readonly selection: Selection
      readonly timeoutSeconds?: number | undefined
      readonly token?: string | undefined
      readonly over?: WatchTransport | undefined
    }
  | { readonly do: 'unwatch'; readonly watcher: string }

const clients = 3
const transports: readonly WatchTransport[] = ['lines', 'events', 'shared']
const colors = ['red', 'blue'] as const

/**
 * Returns a plan that depends on nothing but the seed and the number of steps.
 * @param given steps of clients, besides those of a story. Default: 20 to 99
 */
export function planOf(seed: number, given?: number): Plan {
  const random = new Random(seed)
  const count = given ?? 20 + random.below(80)
  const servers = random.chance(0.7) ? 2 : 3
  // Without processes of their own, controllers run in the servers.
  const controllers = random.below(3)
  const lengthMs = random.pick([2_000, 10_000, 40_000, 100_000])
  const operations = random.fork()
  const reloads = operations.chance(0.15) ? reloadsOf(operations, { servers, lengthMs }) : []
  const isCalm = random.chance(reloads.length === 0 ? 0.1 : 0.4)
  const faults = isCalm ? [] : faultsOf(random.fork(), { servers, controllers, lengthMs })
  if (!isCalm) faults.push(...slowReloads(operations, reloads))
  if (!isCalm && operations.chance(0.08)) faults.push(...restoreOf(operations, { servers, lengthMs }))
  const rotation = operations.chance(0.15) ? rotationOf(operations, { lengthMs }) : []
  faults.push(...rotation)
  const moments = faults.flatMap(({ at, fault }) => ('forMs' in fault ? [at, at + (fault.forMs ?? 0)] : [at]))
  moments.push(...reloads.map(({ at }) => at))
  const writers = stepsOf(random.fork(), { servers, lengthMs, moments, count })
  const story = random.chance(0.4) ? storyOf(random.fork(), { servers, controllers, clients }) : []
  const defining = operations.chance(0.2) ? definitionSteps(operations, { servers, lengthMs, clients }) : []
  const told = [...(defining.length === 0 ? writers : withGears(operations, writers)), ...story, ...defining]
  const asked = rotation.length === 0 ? told : withTokens(operations, told)
  const steps = [...(reloads.length === 0 ? asked : inVersions(operations, asked)), ...reloads, ...faults]
  steps.sort((a, b) => a.at - b.at)
  return { seed, servers, controllers, steps }
}

export interface Extent {
  readonly servers: number
  readonly lengthMs: number
}

interface StepsExtent extends Extent {
  /** When faults begin and end. */
  readonly moments: readonly number[]
  readonly count: number
}

function stepsOf(random: Random, { servers, lengthMs, moments, count }: StepsExtent): Step[] {
  const steps: Step[] = []
  const place = () => ({ client: random.below(clients), server: random.below(servers) })
  for (const of of ['gadgets', 'parts'] as const)
    for (let n = random.below(3); n >= 0; n--) {
      const timeoutSeconds = random.chance(0.4) ? 1 + random.below(10) : undefined
      const selection = selectionOf(random, of)
      const token = tokenOf(random)
      const over = random.chance(0.5) ? random.pick(transports) : undefined
      const action: Action = {
        do: 'watch',
        of,
        watcher: `${of}-${n}`,
        selection,
        timeoutSeconds,
        token,
        over,
      }
      steps.push({ at: random.below(lengthMs / 2), ...place(), action })
      if (random.chance(0.2))
        steps.push({
          at: random.below(lengthMs),
          ...place(),
          action: { do: 'unwatch', watcher: `${of}-${n}` },
        })
    }
  for (const of of ['roles', 'bindings'] as const)
    steps.push({ at: 0, ...place(), action: { do: 'create', of, name: reader, spec: {}, color: 'red' } })
  // Requests come in bursts, because what happens at the same time is what goes wrong.
  let at = 0
  while (steps.length < count) {
    if (random.chance(0.6)) at += random.below(8)
    else if (moments.length > 0 && random.chance(0.5))
      at = random.pick(moments) + random.below(random.pick([60, 2_000]))
    else at = random.below(lengthMs)
    if (at < 2 * lengthMs) steps.push({ at, ...place(), action: actionOf(random) })
  }
  return steps
}

function actionOf(random: Random): Action {
  if (random.chance(0.06)) {
    const target = { of: 'namespaces', name: 'room' } as const
    return random.chance(0.6)
      ? { do: 'create', ...target, spec: {}, color: 'red' }
      : { do: 'delete', ...target }
  }
  if (random.chance(0.04)) {
    const target = { of: 'bindings', name: reader } as const
    return random.chance(0.6)
      ? { do: 'create', ...target, spec: {}, color: 'red' }
      : { do: 'delete', ...target }
  }
  const of = random.chance(0.6) ? 'gadgets' : 'parts'
  const target = {
    of,
    namespace: of === 'gadgets' ? undefined : random.pick(['default', 'default', 'room']),
    name: `${of === 'gadgets' ? 'g' : 'p'}${random.below(5)}`,
  } as const
  const color = random.pick(colors)
  const spec = specOf(random, of)
  const versioned = random.chance(0.5)
  const kind = random.below(100)
  if (kind < 22) {
    const finalizers = random.chance(0.3) ? { finalizers: ['sim.example.com/hold'] } : {}
    const owners =
      of === 'parts' && random.chance(0.6)
        ? { owners: random.shuffled(['g0', 'g1', 'g2', 'g3', 'g4']).slice(0, random.chance(0.7) ? 1 : 2) }
        : {}
    return { do: 'create', ...target, spec, color, ...finalizers, ...owners }
  }
  if (kind < 34) return { do: 'update', ...target, spec, color, knows: random.chance(0.8), versioned }
  if (kind < 46) return { do: 'merge', ...target, spec: partOf(random, spec), color, versioned }
  if (kind < 52) return { do: 'apply', ...target, spec, color, force: random.chance(0.8) }
  if (kind < 58) return { do: 'finalize', ...target }
  if (kind < 72) {
    const precondition = random.chance(0.3) ? random.pick(['version', 'uid'] as const) : undefined
    const propagation = random.chance(0.3)
      ? random.pick(['Background', 'Foreground', 'Orphan'] as const)
      : undefined
    return { do: 'delete', ...target, precondition, propagation }
  }
  const token = tokenOf(random)
  if (kind < 84) return { do: 'get', ...target, stale: random.chance(0.2), token }
  const limit = random.chance(0.5) ? 1 + random.below(3) : undefined
  const pauseMs = random.chance(0.5) ? random.below(random.pick([20, 1_000])) : undefined
  return {
    do: 'list',
    of,
    selection: selectionOf(random, of),
    limit,
    pauseMs,
    exact: random.chance(0.15),
    stale: random.chance(0.15),
    token,
  }
}

function tokenOf(random: Random): string | undefined {
  return random.chance(0.2) ? reader : undefined
}

function specOf(random: Random, of: ResourceName): Fields {
  const note = `n${random.below(100)}`
  const size = random.below(3)
  return of === 'gadgets' ? { email: `e${random.below(6)}`, size, note } : { size, note }
}

function partOf(random: Random, spec: Fields): Fields {
  return Object.fromEntries(Object.entries(spec).filter(() => random.chance(0.6)))
}

function selectionOf(random: Random, of: ResourceName): Selection {
  const namespace = of === 'parts' && random.chance(0.5) ? random.pick(['default', 'room']) : undefined
  const color = random.chance(0.25) ? random.pick(colors) : undefined
  const size = random.chance(0.25) ? random.below(3) : undefined
  return { namespace, color, size }
}

/** Faults that do more together: what is behind and then compacted, or read from where it was not written. */
const combinations = [
  ['lag', 'storeLatency'],
  ['lag', 'compact'],
  ['pause', 'compact'],
  ['kill', 'compact'],
  ['kill', 'storeLatency'],
  ['lag', 'cut'],
] as const

function faultsOf(
  random: Random,
  { servers, controllers, lengthMs }: Extent & { readonly controllers: number },
): FaultStep[] {
  const server = () => `server-${random.below(servers)}`
  const node = () =>
    controllers === 0 || random.chance(0.75) ? server() : `controllers-${random.below(controllers)}`
  const forMs = () => 20 + random.below(random.pick([100, 3_000, 15_000]))
  const kinds = {
    kill: (): Fault => ({ type: 'kill', node: node(), forMs: forMs() }),
    restart: (): Fault => ({ type: 'restart', node: node() }),
    pause: (): Fault => ({ type: 'pause', node: node(), forMs: forMs() }),
    clock: (): Fault => ({
      type: 'clock',
      node: node(),
      jumpMs: random.below(20_000) - 10_000,
      rate: random.pick([0.9, 1, 1.1]),
    }),
    cut: (): Fault => ({ type: 'cut', node: node() }),
    cutAfter: (): Fault => ({
      type: 'cutAfter',
      node: server(),
      direction: random.pick(['to', 'from']),
      bytes: random.below(2_000),
    }),
    partition: (): Fault => ({ type: 'partition', node: node(), forMs: forMs() }),
    netLatency: (): Fault => ({ type: 'netLatency', maxMs: random.below(500), forMs: forMs() }),
    storeLatency: (): Fault => ({
      type: 'storeLatency',
      node: server(),
      maxMs: random.below(800),
      forMs: forMs(),
    }),
    loseResponses: (): Fault => ({
      type: 'loseResponses',
      node: server(),
      probability: random.between(0.1, 0.9),
      forMs: forMs(),
    }),
    leaderChange: (): Fault => ({ type: 'leaderChange', forMs: forMs() }),
    lag: (): Fault => ({
      type: 'lag',
      node: server(),
      byMs: random.below(random.pick([2_000, 15_000])),
      forMs: forMs(),
    }),
    compact: (): Fault => ({ type: 'compact', keep: random.pick([0, 0, 2, 10]) }),
    full: (): Fault => ({ type: 'full', forMs: forMs() }),
  }
  // A few kinds at a time: too many faults hide each other. Some go together.
  const chosen = random.chance(0.4)
    ? random.pick(combinations).map(name => kinds[name])
    : random.shuffled(Object.values(kinds)).slice(0, 1 + random.below(4))
  const steps = Array.from({ length: 1 + random.below(10) }, () => ({
    at: random.below(lengthMs),
    fault: random.pick(chosen)(),
  }))
  return steps.flatMap(step => (random.chance(0.3) ? [step, ...slowStart(step)] : [step]))
}

/** Lets a server that was killed read a slow store when it starts, so that much happens meanwhile. */
function slowStart({ at, fault }: FaultStep): FaultStep[] {
  if (fault.type !== 'kill' || fault.forMs === undefined || !fault.node.startsWith('server-')) return []
  const { node, forMs } = fault
  return [{ at: at + forMs, fault: { type: 'storeLatency', node, maxMs: 800, forMs: 3_000 } }]
}
