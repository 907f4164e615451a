import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { findEarlierProgram } from '../../scripts/earlier-program.mjs'
import { type Answer, Api, objectOf, refusalOf } from '../support/api.ts'
import { ControlPlane } from '../support/control-plane.ts'
import { devicesOf } from '../support/kinds.ts'
import { codesOf, markOf } from '../support/record.ts'
import { builtProgram, type Exit } from '../support/server.ts'
import { RunRecorder } from '../support/watch-record/index.ts'
import { eventually } from '../support/worlds.ts'
import { Cast, describe, type Verdict } from './cast.ts'

import { Random } from './random.ts'
import { report } from './report.ts'
import { type Say, startSaying } from './say.ts'
import { TenureWatch, takesATurn } from './tenure-watch.ts'

export const rollingDefaults = Object.freeze({
  /** The earlier program: a commit of this repository. It must read what the present program stores. */
  from: 'd5b6e60fea3f40fef3f14eecac16da3eb6bad031',
  /** Mean milliseconds between two cuts of the watches of a proxy, which resume at the other server. */
  cutMs: 150,
  /** Milliseconds that both programs run side by side after each replacement, at least and at most. */
  besideMs: [2_000, 8_000] as const,
  /** The share of replacements that kill the process instead of stopping it. */
  kills: 0.25,
  /** Acknowledged writes after each replacement. */
  writes: 50,
  /** Milliseconds for the servers to be ready, and for controllers to take over a lease. */
  patienceMs: 120_000,
})

export interface RollingOptions {
  /** The commit of the earlier program, as git resolves it. */
  readonly from: string
  readonly seed: number
  /** Minimum duration. It lasts longer until everything was upgraded and downgraded. */
  readonly durationMs: number
}

/** One process of the control plane. */
interface Part {
  readonly what: string
  /** Ends the process, and starts another program in its place. Returns how the process ended. */
  readonly replace: (program: string, signal: NodeJS.Signals) => Promise<Exit | undefined>
}

/**
 * Upgrades and downgrades a control plane under load, one process at a time in random order: two servers and two
 * processes of controllers on one etcd, between the program of an earlier commit and the present one. Clients use both
 * servers in turn.
 * @returns true if no guarantee was violated, and every stopped process ended with 0
 */
export async function reportRolling({ from, seed, durationMs }: RollingOptions): Promise<boolean> {
  const say = startSaying()
  say(`from ${from}, seed ${seed}`)
  const earlier = await findEarlierProgram(from)
  say(`the earlier program is ${earlier}`)
  const { problems, ...verdict } = await rolling(earlier, new Random(seed), durationMs, say)
  for (const problem of problems) say(`VIOLATION: ${problem}`)
  return report(verdict, say) && problems.length === 0
}

async function rolling(
  earlier: string,
  random: Random,
  durationMs: number,
  say: Say,
): Promise<Verdict & { readonly problems: readonly string[] }> {
  const plane = await ControlPlane.start({ members: 1, unsafeNoFsync: true, program: earlier })
  const recorder = new RunRecorder({ markOf, uniqueOf: codesOf })
  const cast = new Cast({ servers: plane.servers, recorder, random })
  const tenures = new TenureWatch(plane)
  const over = new AbortController()
  try {
    await tenures.synced()
    await cast.enter()
    const cutting = cut(cast, random.fork(), over.signal)
    const rolled = roll({ plane, cast, earlier, random: random.fork(), durationMs, say, signal: over.signal })
    rolled.catch(() => {})
    // An unexpected failure of a client ends the soak at once.
    await Promise.race([rolled, cutting, cast.ended])
    over.abort()
    const problems = await rolled
    await cutting
    const verdict = await cast.conclude(say)
    await tenures.stop()
    say(`the lease went to another process ${tenures.changes()} times`)
    return { ...verdict, problems: [...problems, ...tenures.stray()] }
  } finally {
    over.abort()
    await Promise.allSettled([cast.leave(), tenures.stop()])
    await plane.end()
  }
}

interface Roll {
  readonly plane: ControlPlane
  readonly cast: Cast
  readonly earlier: string
  readonly random: Random
  readonly durationMs: number
  readonly say: Say
  readonly signal: AbortSignal
}

/**
 * Replaces every process by the present program and back, over and over. Returns what went wrong with stopped
 * processes.
 */
async function roll({ plane, cast, earlier, random, durationMs, say, signal }: Roll): Promise<string[]> {
  const problems: string[] = []
  const endAt = performance.now() + durationMs
  const programs = Object.entries({ present: builtProgram, earlier })
  do {
    for (const [name, program] of programs)
      for (const { what, replace } of random.shuffled(partsOf(plane))) {
        const kill = random.chance(rollingDefaults.kills) ? 'SIGKILL' : 'SIGTERM'
        const began = performance.now()
        const exit = await replace(program, kill)
        if (kill === 'SIGTERM' && exit?.code !== 0)
          problems.push(`${what} ended with ${exit?.code ?? exit?.signal}: ${exit?.stderr.slice(-1_000)}`)
        await works(plane, cast)
        const tookMs = Math.round(performance.now() - began)
        say(`${what} is ${name} after ${kill} (${tookMs} ms); ${describe(cast.figures())}`)
        await sleep(random.between(...rollingDefaults.besideMs), undefined, { signal })
      }
  } while (performance.now() < endAt)
  return problems
}

function partsOf(plane: ControlPlane): Part[] {
  const servers = plane.servers.map((server, n) => ({
    what: `server ${n}`,
    replace: async (program: string, signal: NodeJS.Signals) => {
      const exit = await server.kill(signal)
      await server.restart({ program })
      return exit
    },
  }))
  const controllers = plane.controllers.map(process => ({
    what: `controllers ${process.name}`,
    replace: async (program: string, signal: NodeJS.Signals) => {
      const exit = await process.kill(signal)
      await process.start(program)
      return exit
    },
  }))
  return [...servers, ...controllers]
}

/** Cuts the watches of some watchers now and then, until the signal. */
async function cut({ proxies }: Cast, random: Random, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await sleep(random.between(0, 2) * rollingDefaults.cutMs, undefined, { signal }).catch(() => {})
    random.pick(proxies).watches.cut()
  }
}

/**
 * Resolves once every server takes writes, which every other one shows at once with their owner, a controller writes,
 * and the clients go on.
 * @throws Error if that takes too long, or a server responds otherwise
 */
async function works(plane: ControlPlane, cast: Cast): Promise<void> {
  const { patienceMs, writes } = rollingDefaults
  for (const { url } of plane.servers) {
    const name = `device-${randomUUID()}`
    await eventually(async () => {
      const { status } = await fetch(`${url}/readyz`)
      if (status !== 200) throw new Error(`${url} is not ready`)
    }, patienceMs)
    objectOf(await apply(url, name, 'one', 1), 201)
    for (const other of plane.servers) {
      await devicesOf(new Api(other.url)).read(name)
      refusalOf(await apply(other.url, name, 'two', 2), 409, 'Conflict')
    }
    const { api, path } = devicesOf(new Api(url))
    objectOf(await api.delete(`${path}/${name}`))
  }
  await takesATurn(plane, patienceMs)
  const before = cast.figures().acknowledged
  await eventually(() => {
    if (cast.figures().acknowledged < before + writes) throw new Error('the writers do not go on')
  }, patienceMs)
}

/** Applies a device without force. */
function apply(url: string, name: string, manager: string, size: number): Promise<Answer> {
  const devices = devicesOf(new Api(url))
  const type = 'application/apply-patch+yaml'
  const path = `${devices.at(name)}?fieldManager=${manager}`
  return devices.api.request('PATCH', path, devices.body(name, { size }), { type })
}
