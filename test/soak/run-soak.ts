import { setTimeout as sleep } from 'node:timers/promises'
import { Inspected } from '../support/inspector.ts'
import { codesOf, markOf } from '../support/record.ts'
import { RunRecorder } from '../support/watch-record/index.ts'
import { type Store, startWorld } from '../support/worlds.ts'
import { Cast, describe, type Verdict } from './cast.ts'
import { Footprint, footprintDefaults, type Measured } from './footprint.ts'
import { Random } from './random.ts'
import type { Say } from './say.ts'
import { Troubles } from './troubles.ts'

export interface SoakOptions {
  readonly store: Store
  /** Number of etcd's members. Default 1. */
  readonly members?: number
  /** Seeds every choice, but not the machine's timing. */
  readonly seed: number
  /** Minimum duration. It lasts longer until every trouble has happened. */
  readonly durationMs: number
  /** Called with each progress line. */
  readonly say?: Say
}

export interface SoakResult extends Verdict {
  /** How often each trouble has happened. */
  readonly troubles: Readonly<Record<string, number>>
  /** The server's memory and the size of the store's file. */
  readonly measured: Measured
}

/** Milliseconds between progress lines. */
const progressMs = 10_000

/** Runs writers, watchers and troubles on the built program, and compares the responses with the events. */
export async function soak({
  store,
  members = 1,
  seed,
  durationMs,
  say = () => {},
}: SoakOptions): Promise<SoakResult> {
  const random = new Random(seed)
  const inspected = await Inspected.reserve()
  const env = { NODE_OPTIONS: inspected.nodeOptions.join(' ') }
  const world = await startWorld(store, ['items-plugin'], { members, env })
  const recorder = new RunRecorder({ markOf, uniqueOf: codesOf })
  const cast = new Cast({ servers: [world.server], recorder, random })
  const acknowledged = () => cast.figures().acknowledged
  const footprint = new Footprint({ url: world.server.url, inspected, store, durationMs, acknowledged })
  try {
    await cast.enter()
    const troubles = new Troubles({
      world,
      proxies: cast.proxies,
      recorder,
      random: random.fork(),
      say,
      restartsMs: footprintDefaults.restartsMs(durationMs),
    })
    const progress = setInterval(() => say(`${describe(cast.figures())}; ${footprint.latest}`), progressMs)
    const over = new AbortController()
    try {
      const time = sleep(durationMs, undefined, { signal: over.signal }).catch(() => {})
      // An unexpected failure ends the soak at once.
      await Promise.race([Promise.all([time, troubles.round]), troubles.ended, cast.ended])
    } finally {
      over.abort()
      clearInterval(progress)
      await troubles.stop()
    }
    await footprint.stop()
    const verdict = await cast.conclude(say)
    return { ...verdict, troubles: troubles.counts, measured: footprint.measured() }
  } finally {
    await footprint.stop()
    await cast.leave()
    await world.end()
  }
}
