import { setTimeout as sleep } from 'node:timers/promises'
import { laterRevision, type Revision } from '@setpoint/controller-runtime/api'
import { type FaultProxy, startFaultProxy } from '@setpoint/controller-runtime/testing'
import { itemsOf } from '../support/kinds.ts'
import { markOf, recordedListOf } from '../support/record.ts'
import { RecordedWatcher } from '../support/recorded-watcher.ts'
import { sharedSocket } from '../support/shared-socket.ts'
import { type Transport, transports } from '../support/transports.ts'
import { RunRecorder, type Violation } from '../support/watch-record/index.ts'
import { eventually, type Store, startWorld, type World } from '../support/worlds.ts'
import { dropOne, type Plant } from './plant.ts'
import { Random } from './random.ts'
import { SoakReader } from './reader.ts'
import type { Say } from './say.ts'
import { addressOf, type Subject, subjects } from './subjects.ts'
import { Troubles } from './troubles.ts'
import { SoakWriter } from './writer.ts'

export interface SoakOptions {
  readonly store: Store
  /** Seeds every choice, but not the machine's timing. */
  readonly seed: number
  /** Minimum duration. It lasts longer until every trouble has happened. */
  readonly durationMs: number
  /** Called with each progress line. */
  readonly say?: Say
}

export const soakDefaults = Object.freeze({
  writers: 8,
  /** Few names, so that writers often create objects under the names of deleted ones. */
  namesPerWriter: 12,
  watchers: 50,
  /** Number of watchers on a shared socket. */
  perSharedSocket: 4,
  /** Milliseconds for every watcher to catch up after the last write. */
  patienceMs: 180_000,
  /** Milliseconds between progress lines. */
  progressMs: 10_000,
})

export interface SoakResult {
  /** Violations, except the planted one. */
  readonly violations: readonly Violation[]
  /** The version of the event that was dropped for one watcher, and the violations at that watcher. */
  readonly planted: { readonly version: Revision | undefined; readonly found: readonly Violation[] }
  readonly figures: Figures
  /** How often each trouble has happened. */
  readonly troubles: Readonly<Record<string, number>>
}

export interface Figures {
  readonly acknowledged: number
  readonly refused: number
  readonly unknown: number
  /** Totals of all watchers. */
  readonly events: number
  readonly connections: number
  /** Number of times that a watcher started over after a 410. */
  readonly expired: number
  readonly lists: number
}

/**
 * Runs writers, watchers and troubles on the built program, and compares the responses with the events. An additional
 * watcher misses an event on purpose, to prove that the check would find one.
 */
export async function soak({ store, seed, durationMs, say = () => {} }: SoakOptions): Promise<SoakResult> {
  const random = new Random(seed)
  const world = await startWorld(store, ['items-plugin'])
  const recorder = new RunRecorder({ markOf })
  const cast = new Cast(world, recorder, random)
  try {
    await cast.enter()
    const troubles = new Troubles({ world, proxies: cast.proxies, recorder, random: random.fork(), say })
    const progress = setInterval(() => say(describe(cast.figures())), soakDefaults.progressMs)
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
    const upTo = await cast.finish()
    say(describe(cast.figures()))
    const began = performance.now()
    const violations = recorder.check({ upTo })
    say(`checked in ${Math.round(performance.now() - began)} ms`)
    const isPlanted = ({ seenBy }: Violation) => seenBy === plantedAt
    return {
      violations: violations.filter(violation => !isPlanted(violation)),
      planted: { version: cast.plant.version, found: violations.filter(isPlanted) },
      figures: cast.figures(),
      troubles: troubles.counts,
    }
  } finally {
    await cast.leave()
    await world.end()
  }
}

const plantedAt = 'the watcher whose event was dropped'

interface Way {
  readonly way: string
  readonly transport: Transport
  readonly proxy: FaultProxy
}

/** All clients of a soak. */
class Cast {
  /** The proxies of the watchers with trouble. */
  readonly proxies: FaultProxy[] = []
  readonly plant: Plant = dropOne()
  readonly #world: World
  readonly #recorder: RunRecorder
  readonly #random: Random
  readonly #allProxies: FaultProxy[] = []
  readonly #watchers: RecordedWatcher[] = []
  readonly #writers: SoakWriter[] = []
  #reader: SoakReader | undefined
  #shared: Way | undefined
  /** Watchers that use it. */
  #sharers = 0

  constructor(world: World, recorder: RunRecorder, random: Random) {
    this.#world = world
    this.#recorder = recorder
    this.#random = random
  }

  /** Rejects when a writer or reader gets an invalid response. */
  get ended(): Promise<unknown> {
    return Promise.race([...this.#writers, ...(this.#reader ? [this.#reader] : [])].map(each => each.ended))
  }

  async enter(): Promise<void> {
    const { writers, namesPerWriter, watchers } = soakDefaults
    const namesOf = (writer: number) => Array.from({ length: namesPerWriter }, (_, n) => `w${writer}-${n}`)
    const topics = subjects(Array.from({ length: 3 }, (_, n) => `w${n}-${n}`))
    const { url } = this.#world.server
    const everything: Subject = { title: 'everything', selects: () => true }
    for (const name of ['witness', 'second witness'])
      this.#watch(name, url, everything, transports.webSocket, true)
    const planted = await this.#proxy()
    planted.watches.tamper(this.plant.tamper)
    const noticed: Transport = ({ onEvent, ...options }) =>
      transports.webSocket({
        ...options,
        onEvent: (text, id) => {
          onEvent(text, id)
          this.plant.received(text)
        },
      })
    this.#watch(plantedAt, planted.url, everything, noticed)
    for (let n = 0; n < watchers; n++) {
      const { way, transport, proxy } = await this.#wayOf(n + Math.floor(n / topics.length))
      const subject = topics[n % topics.length] ?? everything
      this.#watch(`watcher ${n} of ${subject.title} over ${way}`, proxy.url, subject, transport)
    }
    const items = itemsOf(this.#world.api)
    const recorder = this.#recorder
    await Promise.all(this.#watchers.slice(0, 2).map(witness => witness.synced()))
    for (let n = 0; n < writers; n++) {
      const random = this.#random.fork()
      this.#writers.push(new SoakWriter({ id: `w${n}`, items, names: namesOf(n), recorder, random }))
    }
    this.#reader = new SoakReader({ items, topics, recorder, random: this.#random.fork() })
  }

  /** Stops the writers and waits until every watcher has caught up. Returns the last version. */
  async finish(): Promise<Revision> {
    await Promise.all(this.#writers.map(writer => writer.stop()))
    await this.#reader?.stop()
    const items = itemsOf(this.#world.api)
    const { version } = await eventually(async () => recordedListOf(await items.api.get(items.path)))
    const upTo = laterRevision(version, this.#recorder.acknowledged)
    await Promise.all(this.#watchers.map(watcher => watcher.catchUp(upTo, soakDefaults.patienceMs)))
    return upTo
  }

  /** Idempotent, and safe in any state. */
  async leave(): Promise<void> {
    const all = [...this.#writers, ...this.#watchers, ...(this.#reader ? [this.#reader] : [])]
    await Promise.allSettled(all.map(each => each.stop()))
    await Promise.all(this.#allProxies.map(proxy => proxy.close()))
  }

  figures(): Figures {
    const sum = (numbers: number[]) => numbers.reduce((total, number) => total + number, 0)
    const outcomes = (kind: 'acknowledged' | 'refused' | 'unknown') =>
      sum(this.#writers.map(writer => writer.outcomes[kind]))
    return {
      acknowledged: outcomes('acknowledged'),
      refused: outcomes('refused'),
      unknown: outcomes('unknown'),
      events: sum(this.#watchers.map(({ events }) => events)),
      connections: sum(this.#watchers.map(({ connections }) => connections)),
      expired: sum(this.#watchers.map(({ expired }) => expired)),
      lists: this.#reader?.lists ?? 0,
    }
  }

  /** Uses each transport in turn, through a proxy of its own. Watchers that share a socket share its proxy. */
  async #wayOf(n: number): Promise<Way> {
    const ways = Object.entries(transports)
    const [way, transport] = ways[n % (ways.length + 1)] ?? []
    if (way !== undefined && transport !== undefined) return { way, transport, proxy: await this.#troubled() }
    if (this.#shared === undefined || this.#sharers === soakDefaults.perSharedSocket) {
      this.#shared = { way: 'a shared socket', transport: sharedSocket(), proxy: await this.#troubled() }
      this.#sharers = 0
    }
    this.#sharers += 1
    return this.#shared
  }

  async #troubled(): Promise<FaultProxy> {
    const proxy = await this.#proxy()
    this.proxies.push(proxy)
    return proxy
  }

  async #proxy(): Promise<FaultProxy> {
    const proxy = await startFaultProxy(this.#world.server.url)
    this.#allProxies.push(proxy)
    return proxy
  }

  #watch(name: string, url: string, subject: Subject, transport: Transport, witness = false): void {
    const recorder = this.#recorder.watcher(name, { selects: subject.selects, witness })
    const random = this.#random.fork()
    const pauseMs = () => random.between(5, 300)
    const address = addressOf(itemsOf(this.#world.api).path, subject)
    this.#watchers.push(new RecordedWatcher({ url: () => url, address, transport, recorder, pauseMs }))
  }
}

function describe(figures: Figures): string {
  return Object.entries(figures)
    .map(([what, count]) => `${what} ${count}`)
    .join(', ')
}
