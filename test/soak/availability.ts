import { loadavg } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { laterRevision } from '@setpoint/controller-runtime/api'
import { ControlPlane } from '../support/control-plane.ts'
import { leaderOf } from '../support/etcd.ts'
import { itemsOf, turnsOf } from '../support/kinds.ts'
import { Load } from '../support/load.ts'
import { markOf, recordedListOf } from '../support/record.ts'
import { RecordedWatcher } from '../support/recorded-watcher.ts'
import { RunRecorder } from '../support/watch-record/index.ts'
import { eventually } from '../support/worlds.ts'
import { Gauge, type Reading } from './gauge.ts'
import { Random } from './random.ts'
import { type Say, startSaying } from './say.ts'
import { TenureWatch, takesATurn } from './tenure-watch.ts'

export const availabilityDefaults = Object.freeze({
  writers: 4,
  readers: 4,
  /** Number of watchers on each server. As many more change servers at each connection. */
  watchers: 2,
  /** Milliseconds that a killed or stalled process is away: longer than an election, and than etcd's own 7 s. */
  awayMs: 10_000,
  /** Milliseconds that controllers hang: longer than a lease and the next attempt to take it. */
  hangMs: 25_000,
  /** Milliseconds after a disturbance that still count as part of it. */
  afterMs: 3_000,
  /** Milliseconds for a lease to expire and the next one to start, and more. */
  takeoverMs: 40_000,
  /** Milliseconds before a reader gives up: above every bound of the server. */
  requestMs: 30_000,
})

export interface AvailabilityOptions {
  readonly seed: number
  /** Minimum duration. It lasts longer until every disturbance has happened equally often. */
  readonly durationMs: number
  readonly say?: Say
}

export interface AvailabilityResult {
  /** The readings by disturbance. */
  readonly readings: ReadonlyMap<string, readonly Reading[]>
  /** Broken promises. */
  readonly violations: readonly string[]
}

/** Runs it and prints the results. Returns true if every promise was kept. */
export async function reportAvailability(options: Omit<AvailabilityOptions, 'say'>): Promise<boolean> {
  const say = startSaying()
  say(`seed ${options.seed}, load of the machine ${loadavg()[0]?.toFixed(1)}`)
  const { readings, violations } = await availability({ ...options, say })
  console.log(tableOf(readings))
  for (const violation of violations) say(`VIOLATION: ${violation}`)
  say(`${violations.length === 0 ? 'no' : violations.length} violation, load ${loadavg()[0]?.toFixed(1)}`)
  return violations.length === 0
}

/** Disturbs every process, one thing at a time, under load, and then checks the record. */
export async function availability({
  seed,
  durationMs,
  say = () => {},
}: AvailabilityOptions): Promise<AvailabilityResult> {
  const random = new Random(seed)
  const plane = await ControlPlane.start()
  const gauge = new Gauge()
  const audience = new Audience(plane, gauge)
  try {
    await audience.enter()
    const readings = new Map<string, Reading[]>()
    const disturbances = Object.entries(disturbancesOf(plane, random))
    const endAt = performance.now() + durationMs
    do {
      for (const [what, disturb] of random.shuffled([
        ['nothing', () => sleep(5_000)] as const,
        ...disturbances,
      ])) {
        await audience.quiet()
        gauge.read()
        await disturb()
        await sleep(availabilityDefaults.afterMs)
        const reading = gauge.read()
        readings.set(what, [...(readings.get(what) ?? []), reading])
        say(
          `${what}: ${JSON.stringify(reading, (_, value) => (typeof value === 'number' ? Math.round(value) : value))}`,
        )
      }
    } while (performance.now() < endAt)
    return { readings, violations: await audience.check() }
  } finally {
    await audience.leave()
    await plane.end()
  }
}

function disturbancesOf(plane: ControlPlane, random: Random): Record<string, () => Promise<unknown>> {
  const { awayMs, hangMs } = availabilityDefaults
  const away = () => sleep(awayMs)
  const follower = async () => {
    const leader = await leaderOf(plane.members)
    return random.pick(plane.members.filter(member => member !== leader))
  }
  const leading = async () => {
    const writer = await lastWriter(plane)
    return plane.controllers.find(({ name }) => name === writer) ?? random.pick(plane.controllers)
  }
  return {
    "etcd's leader is killed": async () => {
      const member = await leaderOf(plane.members)
      await member.kill()
      await away()
      await member.restart()
    },
    'a follower of etcd is killed': async () => {
      const member = await follower()
      await member.kill()
      await away()
      await member.restart()
    },
    "etcd's leader hangs": async () => {
      const member = await leaderOf(plane.members)
      await member.pause()
      await away()
      member.resume()
    },
    'a follower of etcd hangs': async () => {
      const member = await follower()
      await member.pause()
      await away()
      member.resume()
    },
    'a server is killed': async () => {
      const server = random.pick(plane.servers)
      await server.kill('SIGKILL')
      await away()
      await server.restart()
    },
    'the leading controllers are killed': async () => {
      const controllers = await leading()
      await controllers.kill('SIGKILL')
      await away()
      await controllers.start()
    },
    'the leading controllers hang': async () => {
      const controllers = await leading()
      controllers.pause()
      await sleep(hangMs)
      controllers.resume()
    },
    'everything is restarted, one at a time': async () => {
      for (const member of plane.members) {
        await member.kill('SIGTERM')
        await member.restart()
        await sleep(2_000)
      }
      for (const server of plane.servers) {
        await server.kill('SIGTERM')
        await server.restart()
        await sleep(2_000)
      }
      for (const controllers of plane.controllers) {
        await controllers.kill('SIGTERM')
        await controllers.start()
        await sleep(2_000)
      }
    },
  }
}

/** Returns the process of controllers that has written last. */
async function lastWriter(plane: ControlPlane): Promise<unknown> {
  return eventually(async () => (await turnsOf(plane.api()).read('turn-0')).status.by)
}

/** The writers, readers and watchers. */
class Audience {
  readonly #plane: ControlPlane
  readonly #gauge: Gauge
  readonly #recorder = new RunRecorder({ markOf })
  readonly #tenures: TenureWatch
  readonly #watchers: RecordedWatcher[] = []
  #load: Load | undefined
  #readers: Promise<void>[] = []
  #stopped = false

  constructor(plane: ControlPlane, gauge: Gauge) {
    this.#plane = plane
    this.#gauge = gauge
    this.#tenures = new TenureWatch(plane, () => gauge.succeeded('controller'))
  }

  async enter(): Promise<void> {
    const plane = this.#plane
    const { writers, readers, watchers } = availabilityDefaults
    const items = itemsOf(plane.api()).path
    for (let n = 0; n < watchers; n++) {
      for (const [at, server] of plane.servers.entries())
        this.#watch(`watcher ${n} on server ${at}`, items, () => server.url)
      this.#watch(`watcher ${n} on each in turn`, items, () => plane.api().url)
    }
    await Promise.all([this.#tenures, ...this.#watchers].map(watcher => watcher.synced()))
    this.#load = new Load(
      this.#recorder,
      () => plane.api(),
      writers,
      ({ kind }, tookMs) => {
        if (kind === 'acknowledged') this.#gauge.succeeded('write')
        this.#gauge.request(kind === 'acknowledged' ? 'succeeded' : kind, tookMs)
      },
    )
    this.#readers = Array.from({ length: readers }, () => this.#read(items))
  }

  /** Resolves when every client makes progress, so that a disturbance does not affect the next reading. */
  async quiet(): Promise<void> {
    const { takeoverMs } = availabilityDefaults
    await Promise.all(
      this.#plane.servers.map(({ url }) =>
        eventually(async () => {
          const { status } = await fetch(`${url}/readyz`)
          if (status !== 200) throw new Error(`${url} is not ready`)
        }, takeoverMs),
      ),
    )
    await takesATurn(this.#plane, takeoverMs)
    await this.#load?.progress(50)
  }

  /** Ends the load and returns broken promises. */
  async check(): Promise<string[]> {
    this.#stopped = true
    await this.#load?.stop()
    await Promise.all(this.#readers)
    const { acknowledged } = this.#recorder
    const { version, objects } = await eventually(async () => {
      const api = this.#plane.api()
      return recordedListOf(await api.get(itemsOf(api).path))
    })
    this.#recorder.listed({ name: 'the last list', selects: () => true, version, objects, acknowledged })
    const upTo = laterRevision(version, acknowledged)
    await Promise.all(this.#watchers.map(watcher => watcher.catchUp(upTo)))
    return [
      ...this.#recorder.check({ upTo }).map(({ guarantee, message }) => `${guarantee}: ${message}`),
      ...this.#tenures.stray(),
    ]
  }

  /** Idempotent, and safe in any state. */
  async leave(): Promise<void> {
    this.#stopped = true
    await Promise.allSettled([this.#load, this.#tenures, ...this.#watchers].map(each => each?.stop()))
  }

  async #read(items: string): Promise<void> {
    while (!this.#stopped) {
      const sentAt = performance.now()
      const signal = AbortSignal.timeout(availabilityDefaults.requestMs)
      const answer = await this.#plane
        .api()
        .get(`${items}?page=1&size=5`, { signal })
        .catch(() => undefined)
      const isAnswered = answer?.status === 200
      if (isAnswered) this.#gauge.succeeded('read')
      this.#gauge.request(isAnswered ? 'succeeded' : 'refused', performance.now() - sentAt)
      await sleep(10)
    }
  }

  #watch(name: string, address: string, url: () => string): void {
    const recorder = this.#recorder.watcher(name, { witness: true })
    this.#watchers.push(new RecordedWatcher({ url, address, recorder }))
  }
}

/** Markdown: the median and the maximum of each, in milliseconds. */
function tableOf(readings: ReadonlyMap<string, readonly Reading[]>): string {
  const lines = [
    '| disturbance | times | no write acknowledged | no read answered | no controller wrote | longest request | unknown outcomes |',
    '|---|---|---|---|---|---|---|',
  ]
  for (const [what, all] of readings) {
    const spread = (of: (reading: Reading) => number) => {
      const sorted = all.map(of).sort((a, b) => a - b)
      const middle = sorted.slice(Math.ceil(sorted.length / 2) - 1, Math.floor(sorted.length / 2) + 1)
      const median = middle.reduce((sum, ms) => sum + ms, 0) / middle.length
      return `${Math.round(median)} (${Math.round(sorted.at(-1) ?? 0)})`
    }
    const unknown = all.reduce((sum, reading) => sum + reading.unknown, 0)
    const cells = [
      spread(reading => reading.writeGapMs),
      spread(reading => reading.readGapMs),
      spread(reading => reading.controllerGapMs),
      spread(reading => reading.requestMs),
    ]
    lines.push(`| ${what} | ${all.length} | ${cells.join(' | ')} | ${unknown} |`)
  }
  return lines.join('\n')
}
