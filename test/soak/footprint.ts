import { setTimeout as sleep } from 'node:timers/promises'
import type { Inspected } from '../support/inspector.ts'
import type { Store } from '../support/worlds.ts'
import { type Point, type Trend, trendOf } from './trend.ts'

const minuteMs = 60_000
const mebi = 1024 * 1024

export const footprintDefaults = Object.freeze({
  /** Least milliseconds between two readings. */
  everyMs: 10_000,
  /** Most readings of a run, since each collects the server's garbage. */
  readings: 180,
  /** Milliseconds before a reading is given up, as while the server is away. */
  patienceMs: 10_000,
  /** Milliseconds that the caches keep changes. */
  historyMs: 5 * minuteMs,
  /** Milliseconds after a server's start until its memory counts: the history is full, and the program warm. */
  warmUpMs: 5.5 * minuteMs,
  /** Changes after which the embedded store's history no longer grows. */
  historyRevisions: 100_000,
  /** Milliseconds that a trend must cover to be judged. */
  leastMs: 2 * minuteMs,
  /** A trend is not judged if time explains more than this share of the variance of the load. */
  mostConfusion: 0.8,
  /** A trend is flat if it rises by no more than this share of the mean, or these bytes. */
  allowedShare: 0.1,
  allowedBytes: 8 * mebi,
  /**
   * Milliseconds of a run in which the server is restarted: a third, but so that the time after them suffices to judge
   * its memory. A run that is shorter than ten minutes is not judged.
   */
  restartsMs: (durationMs: number) =>
    durationMs < 10 * minuteMs ? durationMs : Math.min(durationMs / 3, durationMs - 8 * minuteMs),
})

/** One reading after a garbage collection, in bytes. */
export interface Reading {
  /** Milliseconds since the start of the run. */
  readonly atMs: number
  /** When the server's process started, in seconds of its clock. */
  readonly startedAt: number
  /** The JavaScript heap in use, and memory outside of it that belongs to its objects. */
  readonly heap: number
  /** Resident memory without mapped files. */
  readonly resident: number
  /** The store's file; undefined until the server knows it. */
  readonly file: number | undefined
  /** Writes acknowledged before. */
  readonly writes: number
}

/** A judged trend, or why there is none. */
export interface Judgement {
  readonly what: 'heap' | 'resident' | 'file'
  readonly trend: Trend | undefined
  readonly verdict: string
  readonly isViolation: boolean
}

export interface Measured {
  readonly readings: readonly Reading[]
  readonly judgements: readonly Judgement[]
}

export interface FootprintOptions {
  readonly url: string
  /** The server's process. */
  readonly inspected: Inspected
  readonly store: Store
  /** Of the run, in milliseconds. */
  readonly durationMs: number
  /** Returns the number of acknowledged writes. */
  readonly acknowledged: () => number
}

/** Reads the server's memory and metrics during a run. */
export class Footprint {
  readonly #options: FootprintOptions
  readonly #readings: Reading[] = []
  readonly #over = new AbortController()
  readonly #running: Promise<void>

  constructor(options: FootprintOptions) {
    this.#options = options
    this.#running = this.#run()
  }

  /** The last reading in words. */
  get latest(): string {
    const last = this.#readings.at(-1)
    if (last === undefined) return 'memory unknown'
    const { heap, resident, file } = last
    return `heap ${inMebi(heap)}, resident ${inMebi(resident)}, file ${inMebi(file)} MiB`
  }

  measured(): Measured {
    return { readings: this.#readings, judgements: judge(this.#readings, this.#options.store) }
  }

  /** Idempotent. */
  async stop(): Promise<void> {
    this.#over.abort()
    await this.#running
  }

  async #run(): Promise<void> {
    const { signal } = this.#over
    const everyMs = Math.max(footprintDefaults.everyMs, this.#options.durationMs / footprintDefaults.readings)
    const began = performance.now()
    while (!signal.aborted) {
      await sleep(everyMs, undefined, { signal }).catch(() => {})
      const reading = await this.#read(performance.now() - began).catch(() => undefined)
      if (reading !== undefined) this.#readings.push(reading)
    }
  }

  /** Returns undefined if a metric is missing. @throws Error while the server is away */
  async #read(atMs: number): Promise<Reading | undefined> {
    const { url, inspected, acknowledged } = this.#options
    const signal = AbortSignal.timeout(footprintDefaults.patienceMs)
    const used = await inspected.heapBytes(signal)
    const text = await (await fetch(`${url}/metrics`, { signal })).text()
    const figure = (series: string) => {
      const line = text.split('\n').find(each => each.startsWith(`${series} `))
      return line === undefined ? undefined : Number(line.slice(series.length + 1))
    }
    const startedAt = figure('process_start_time_seconds')
    const external = figure('nodejs_external_memory_bytes')
    const resident = figure('setpoint_process_anonymous_memory_bytes')
    if (startedAt === undefined || external === undefined || resident === undefined) return undefined
    const file = figure('apiserver_storage_size_bytes')
    return { atMs, startedAt, heap: used + external, resident, file, writes: acknowledged() }
  }
}

/**
 * Judges the second half of a run: memory must be flat and the file bounded. The changes that the caches keep follow
 * the rate of writes, so memory is flat if it does not rise by more than that rate explains.
 */
export function judge(readings: readonly Reading[], store: Store): Judgement[] {
  const { warmUpMs, historyMs, historyRevisions } = footprintDefaults
  const half = (readings.at(-1)?.atMs ?? 0) / 2
  const process = readings.findLastIndex(
    ({ startedAt }, n) => n === 0 || readings[n - 1]?.startedAt !== startedAt,
  )
  const warm = (readings[process]?.atMs ?? 0) + warmUpMs
  const writesBefore = (ms: number) => readings.findLast(({ atMs }) => atMs <= ms)?.writes ?? 0
  const recentWrites = ({ atMs, writes }: Reading) => writes - writesBefore(atMs - historyMs)
  const ofMemory = (what: 'heap' | 'resident') => {
    const points = readings
      .filter(({ atMs }) => atMs >= Math.max(half, warm))
      .map(reading => ({ atMs: reading.atMs, value: reading[what], load: recentWrites(reading) }))
    return judgementOf(what, points, 'the process was not warm for long enough')
  }
  const ofFile = readings.flatMap(({ atMs, writes, file: value }) => {
    const counts = atMs >= half && (store === 'etcd' || writes >= historyRevisions)
    return counts && value !== undefined ? [{ atMs, value, load: 0 }] : []
  })
  return [
    ofMemory('heap'),
    ofMemory('resident'),
    judgementOf('file', ofFile, "the store's history was not full for long enough"),
  ]
}

function judgementOf(what: Judgement['what'], points: readonly Point[], otherwise: string): Judgement {
  const { leastMs, mostConfusion, allowedShare, allowedBytes } = footprintDefaults
  const coveredMs = (points.at(-1)?.atMs ?? 0) - (points[0]?.atMs ?? 0)
  if (coveredMs < leastMs)
    return { what, trend: undefined, verdict: `not judged: ${otherwise}`, isViolation: false }
  const trend = trendOf(points)
  if (trend.confusion > mostConfusion) {
    const verdict = 'not judged: the rate of writes rose or fell all the time'
    return { what, trend, verdict, isViolation: false }
  }
  const allowed = Math.max(trend.mean * allowedShare, allowedBytes)
  const isViolation = trend.rise > allowed
  const rose = `${inMebi(trend.rise)} MiB in ${Math.round(trend.durationMs / minuteMs)} min, allowed ${inMebi(allowed)}`
  return { what, trend, verdict: `${isViolation ? 'grows' : 'flat'}: ${rose}`, isViolation }
}

/** Markdown: readings over time, and the judged trends. */
export function tableOf({ readings, judgements }: Measured): string {
  const rows = 13
  const step = Math.max(1, Math.floor((readings.length - 1) / (rows - 1)))
  const some = readings.filter((_, n) => n % step === 0)
  const restarted = (reading: Reading, n: number) =>
    n > 0 && some[n - 1]?.startedAt !== reading.startedAt ? ', restarted' : ''
  return [
    '| minute | heap (MiB) | resident (MiB) | file (MiB) | writes |',
    '|---|---|---|---|---|',
    ...some.map((reading, n) => {
      const { atMs, heap, resident, file, writes } = reading
      const minute = `${(atMs / minuteMs).toFixed(1)}${restarted(reading, n)}`
      return `| ${[minute, inMebi(heap), inMebi(resident), inMebi(file), writes].join(' | ')} |`
    }),
    '',
    '| what | mean (MiB) | slope (MiB per hour) | bytes per write of the last 5 min | verdict |',
    '|---|---|---|---|---|',
    ...judgements.map(({ what, trend, verdict }) => {
      return `| ${[what, inMebi(trend?.mean), inMebi(trend?.perHour), Math.round(trend?.perLoad ?? 0), verdict].join(' | ')} |`
    }),
  ].join('\n')
}

function inMebi(bytes: number | undefined): string {
  return bytes === undefined ? '–' : (bytes / mebi).toFixed(1)
}
