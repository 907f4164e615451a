import type { History, Violation } from './history.ts'
import { judgeAll, judgeBounds, judgeConvergence, judgeSoFar } from './judges/index.ts'
import { reader } from './kinds.ts'
import { lastActions } from './last-actions.ts'
import type { Plan, Step } from './plan.ts'
import { RecordedLife } from './recorded-life.ts'
import { lastRelease, releases } from './releases.ts'
import type { Held, World, WorldOptions } from './world/world.ts'

const limits = {
  /** Simulated time for all servers to become ready. */
  startMs: 60_000,
  /** Simulated time in which everything has to be done after the last fault, with all back-offs. */
  healMs: 60_000,
  /** Simulated time between two looks whether everything is done. */
  stepMs: 5_000,
  /** Simulated time after the last fault that always passes, because something may still go wrong. */
  restMs: 10_000,
  /** Simulated time for the last requests. */
  endMs: 5_000,
  /** Simulated time until servers have noticed that watches are closed, and between two looks at what they hold. */
  closeMs: 1_000,
  sampleMs: 70,
} as const

export interface Run {
  readonly violations: readonly Violation[]
  readonly history: History
  readonly lines: readonly string[]
  readonly traceHash: string
  /** Simulated milliseconds. */
  readonly simulatedMs: number
  readonly operations: number
  readonly events: number
}

export type OpenWorld = (options: WorldOptions) => Promise<World>

/** Plays a plan in a world of its own, and lets the judges decide. The same plan gives the same run. */
export async function runPlan(
  plan: Plan,
  openWorld: OpenWorld,
  { keepTrace = false }: { readonly keepTrace?: boolean } = {},
): Promise<Run> {
  const { seed, servers, controllers, steps } = plan
  const world = await openWorld({ seed, servers, controllers, releases, keepTrace })
  const isCalm = !steps.some(step => 'fault' in step)
  let life = new RecordedLife(world, { servers, lastRelease: lastRelease(steps), isCalm })
  const found: Violation[] = []
  const say = (message: string) => found.push({ judge: 'convergence', at: world.now(), message })
  const catching = (work: Promise<void>) => {
    work.catch((error: unknown) =>
      say(`a client failed: ${error instanceof Error ? error.stack : String(error)}`),
    )
  }
  const hasReloads = steps.some(step => 'reload' in step)
  const last = lastRelease(steps)
  try {
    world.setTokens([{ token: reader, user: reader }])
    if (!(await areReady(world, servers))) say('not all servers became ready')
    const start = world.now()
    for (const step of steps) {
      const wait = start + step.at - world.now()
      if (wait > 0) await world.advance(wait)
      begin(step)
    }
    await world.advance(1)
    if (hasReloads) for (let server = 0; server < servers; server++) world.reload(server, last)
    const quietFrom = world.heal()
    world.trace('the faults have ended')
    do await world.advance(limits.stepMs)
    while (!isAtRest(quietFrom) && world.now() < quietFrom + limits.healMs)
    if (!(await areReady(world, servers))) say('not all servers became ready after the faults')
    const healedAt = world.now()
    for (let server = 0; server < servers; server++)
      for (const action of lastActions(server, hasReloads)) catching(life.play(0, server, action))
    await world.advance(limits.endMs)
    for (const { message } of world.failures) say(`the world failed: ${message}`)
    const history = life.historyAt(healedAt)
    const { lines, traceHash, counts } = world
    const violations = [...found, ...judgeAll(history)]
    life.close()
    violations.push(...judgeBounds(await samplesAtRest(world), world.now()))
    const operations = counts.requests
    const result = { violations, history, lines: [...lines], traceHash, operations, events: counts.events }
    return { ...result, simulatedMs: world.now() }
  } finally {
    life.close()
    await world.close()
  }

  /** Returns whether nothing is left to do, so that no more time has to pass. */
  function isAtRest(quietFrom: number): boolean {
    const now = world.now()
    return now >= quietFrom + limits.restMs && judgeConvergence(life.historyAt(now)).length === 0
  }

  function begin(step: Step): void {
    if ('action' in step) {
      catching(life.play(step.client, step.server, step.action))
      return
    }
    if ('reload' in step) {
      world.reload(step.server, step.reload)
      return
    }
    const { fault } = step
    if (fault.type === 'compact') life.compacted(world.store.revision - fault.keep)
    const before = world.store.life
    const past = fault.type === 'putBack' ? life.ended() : undefined
    world.inject(fault)
    if (world.store.life === before) return
    if (past === undefined) life.restored()
    else {
      found.push(...judgeSoFar(past))
      life.close()
      life = life.next()
    }
  }
}

/** Returns what servers hold at some moments, once the closed watches have ended. */
async function samplesAtRest(world: World): Promise<(readonly Held[])[]> {
  const samples: (readonly Held[])[] = []
  await world.advance(limits.closeMs)
  for (let n = 0; n < 5; n++) {
    await world.advance(limits.sampleMs)
    samples.push(world.held)
  }
  return samples
}

async function areReady(world: World, servers: number): Promise<boolean> {
  const end = world.now() + limits.startMs
  const all = Array.from({ length: servers }, (_, server) => server)
  while (!all.every(server => world.isReady(server))) {
    if (world.now() > end) return false
    await world.advance(50)
  }
  return true
}
