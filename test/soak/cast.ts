import { laterRevision, type Revision } from '@setpoint/controller-runtime/api'
import { type FaultProxy, startFaultProxy } from '@setpoint/controller-runtime/testing'
import { Api } from '../support/api.ts'
import { itemsOf } from '../support/kinds.ts'
import { recordedListOf } from '../support/record.ts'
import { RecordedWatcher } from '../support/recorded-watcher.ts'
import type { ServerProcess } from '../support/server.ts'
import { sharedSocket } from '../support/shared-socket.ts'
import { type Transport, transports } from '../support/transports.ts'
import type { RunRecorder, Violation } from '../support/watch-record/index.ts'
import { eventually } from '../support/worlds.ts'
import { dropOne, type Plant } from './plant.ts'
import type { Random } from './random.ts'
import { SoakReader } from './reader.ts'
import type { Say } from './say.ts'
import { addressOf, type Subject, subjects } from './subjects.ts'
import { SoakWriter } from './writer.ts'

export const castDefaults = Object.freeze({
  writers: 8,
  /** Few names, so that writers often create objects under the names of deleted ones. */
  namesPerWriter: 12,
  watchers: 50,
  /** Number of watchers on a shared socket. */
  perSharedSocket: 4,
  /** Milliseconds for every watcher to catch up after the last write. */
  patienceMs: 180_000,
})

/** What the record of a soak shows. */
export interface Verdict {
  /** Violations, except the planted one. */
  readonly violations: readonly Violation[]
  /** The version of the event that was dropped for one watcher, and the violations at that watcher. */
  readonly planted: { readonly version: Revision | undefined; readonly found: readonly Violation[] }
  readonly figures: Figures
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

const plantedAt = 'the watcher whose event was dropped'

export interface CastOptions {
  /** Clients use them in turn. */
  readonly servers: readonly ServerProcess[]
  readonly recorder: RunRecorder
  readonly random: Random
}

/** A watcher's way to the servers. */
interface Way {
  readonly way: string
  readonly transport: Transport
  /** Returns the URL of the next server. */
  readonly url: () => string
}

/**
 * All clients of a soak: writers, a reader, and watchers of everything and of each type of selector, over each
 * transport. If there are several servers, a client uses them in turn: a watch is resumed at another server. An
 * additional watcher misses an event on purpose, to prove that the check would find one.
 */
export class Cast {
  /** The proxies of the watchers with trouble. */
  readonly proxies: FaultProxy[] = []
  readonly plant: Plant = dropOne()
  readonly #servers: readonly ServerProcess[]
  readonly #api: () => Api
  readonly #recorder: RunRecorder
  readonly #random: Random
  readonly #allProxies: FaultProxy[] = []
  readonly #watchers: RecordedWatcher[] = []
  readonly #writers: SoakWriter[] = []
  #reader: SoakReader | undefined
  #shared: Way | undefined
  /** Watchers that use it. */
  #sharers = 0

  constructor({ servers, recorder, random }: CastOptions) {
    this.#servers = servers
    const url = inTurn(servers.map(({ url }) => url))
    this.#api = () => new Api(url())
    this.#recorder = recorder
    this.#random = random
  }

  /** Rejects when a writer or reader gets an invalid response. */
  get ended(): Promise<unknown> {
    return Promise.race([...this.#writers, ...(this.#reader ? [this.#reader] : [])].map(each => each.ended))
  }

  async enter(): Promise<void> {
    const { writers, namesPerWriter, watchers } = castDefaults
    const namesOf = (writer: number) => Array.from({ length: namesPerWriter }, (_, n) => `w${writer}-${n}`)
    const topics = subjects(Array.from({ length: 3 }, (_, n) => `w${n}-${n}`))
    const direct = () => inTurn(this.#servers.map(({ url }) => url))
    const everything: Subject = { title: 'everything', selects: () => true }
    for (const name of ['witness', 'second witness'])
      this.#watch(name, direct(), everything, transports.webSocket, true)
    const planted = await this.#proxied()
    for (const { watches } of planted) watches.tamper(this.plant.tamper)
    const noticed: Transport = ({ onEvent, ...options }) =>
      transports.webSocket({
        ...options,
        onEvent: (text, id) => {
          onEvent(text, id)
          this.plant.received(text)
        },
      })
    this.#watch(plantedAt, inTurn(planted.map(({ url }) => url)), everything, noticed)
    for (let n = 0; n < watchers; n++) {
      const { way, transport, url } = await this.#wayOf(n + Math.floor(n / topics.length))
      const subject = topics[n % topics.length] ?? everything
      this.#watch(`watcher ${n} of ${subject.title} over ${way}`, url, subject, transport)
    }
    const items = () => itemsOf(this.#api())
    const recorder = this.#recorder
    await Promise.all(this.#watchers.slice(0, 2).map(witness => witness.synced()))
    for (let n = 0; n < writers; n++) {
      const random = this.#random.fork()
      this.#writers.push(new SoakWriter({ id: `w${n}`, items, names: namesOf(n), recorder, random }))
    }
    this.#reader = new SoakReader({ items, topics, recorder, random: this.#random.fork() })
  }

  /** Stops the writers, waits until every watcher has caught up, and compares the responses with the events. */
  async conclude(say: Say): Promise<Verdict> {
    const upTo = await this.#finish()
    say(describe(this.figures()))
    const began = performance.now()
    const violations = this.#recorder.check({ upTo })
    say(`checked in ${Math.round(performance.now() - began)} ms`)
    const isPlanted = ({ seenBy }: Violation) => seenBy === plantedAt
    return {
      violations: violations.filter(violation => !isPlanted(violation)),
      planted: { version: this.plant.version, found: violations.filter(isPlanted) },
      figures: this.figures(),
    }
  }

  /** Returns the last version. */
  async #finish(): Promise<Revision> {
    await Promise.all(this.#writers.map(writer => writer.stop()))
    await this.#reader?.stop()
    const { version } = await eventually(async () => {
      const { api, path } = itemsOf(this.#api())
      return recordedListOf(await api.get(path))
    })
    const upTo = laterRevision(version, this.#recorder.acknowledged)
    await Promise.all(this.#watchers.map(watcher => watcher.catchUp(upTo, castDefaults.patienceMs)))
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
    if (way !== undefined && transport !== undefined) return { way, transport, url: await this.#troubled() }
    if (this.#shared === undefined || this.#sharers === castDefaults.perSharedSocket) {
      this.#shared = { way: 'a shared socket', transport: sharedSocket(), url: await this.#troubled() }
      this.#sharers = 0
    }
    this.#sharers += 1
    return this.#shared
  }

  async #troubled(): Promise<() => string> {
    const proxies = await this.#proxied()
    this.proxies.push(...proxies)
    return inTurn(proxies.map(({ url }) => url))
  }

  /** Starts a proxy of each server. */
  async #proxied(): Promise<FaultProxy[]> {
    const proxies = await Promise.all(this.#servers.map(({ url }) => startFaultProxy(url)))
    this.#allProxies.push(...proxies)
    return proxies
  }

  #watch(name: string, url: () => string, subject: Subject, transport: Transport, witness = false): void {
    const recorder = this.#recorder.watcher(name, { selects: subject.selects, witness })
    const random = this.#random.fork()
    const pauseMs = () => random.between(5, 300)
    const address = addressOf(itemsOf(this.#api()).path, subject)
    this.#watchers.push(new RecordedWatcher({ url, address, transport, recorder, pauseMs }))
  }
}

/** Returns the figures in one line. */
export function describe(figures: Figures): string {
  return Object.entries(figures)
    .map(([what, count]) => `${what} ${count}`)
    .join(', ')
}

/** Returns a function that returns one after the other, over and over. */
function inTurn(urls: readonly string[]): () => string {
  let turn = 0
  return () => urls[turn++ % urls.length] ?? ''
}
