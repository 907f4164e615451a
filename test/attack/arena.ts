import { setMaxListeners } from 'node:events'
import http from 'node:http'
import https from 'node:https'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Store } from '../support/worlds.ts'
import type { Attack, Form, Scene } from './attack.ts'
import { callAll } from './call.ts'
import { type Holding, holdingOf, leastOf, provokeCollection, restingHolding } from './measure.ts'
import { Target, usual } from './target.ts'
import { neighbourhood, type Readings, type Sight, Witness } from './witness.ts'

/** What every attack must leave intact. */
export const bounds = Object.freeze({
  /** Milliseconds for every `/livez`. */
  livezMs: 1_000,
  /** The 99th percentile of a GET and of a list of the second caller, as multiples of the quiet ones. */
  getRatio: 5,
  listRatio: 10,
  /** The same as multiples of those of a bare Node server under the same attack, where that is slower. */
  bareRatio: 2,
  /**
   * Milliseconds of an attack that lasts, without restarts. A shorter one, such as a single large body, is judged by
   * the longest pause: how many requests of a window it delays says more about the window.
   */
  lastingMs: 2_000,
  /** Minimum milliseconds for a quiet percentile, because attacker, server and second caller share the processors. */
  quietMs: 4,
  /** Memory and descriptors after an attack, as multiples of those before. */
  returnRatio: 1.1,
  /** Bytes that may remain in addition: compiled code and pools of paths that ran for the first time. */
  warmUpBytes: 8 * 1024 * 1024,
  /** Milliseconds for an attack to end, and for memory and descriptors to return. */
  attackMs: 120_000,
  returnMs: 60_000,
  /** Milliseconds for a request of the second caller. The short form tolerates slow machines. */
  patienceMs: { short: 120_000, long: 30_000 },
  /**
   * Milliseconds of a window for percentiles: a quiet one for each server, and at least one for each attack. In the
   * short form an attack lasts as long as it takes, because nothing depends on percentiles.
   */
  windowMs: { short: 0, long: 8_000 },
})

export interface Result {
  readonly attack: Attack
  /** Broken guarantees that do not depend on the speed of the machine. */
  readonly broken: readonly string[]
  /** Broken bounds of time. */
  readonly slow: readonly string[]
  readonly figures: string
}

/** Runs attacks on one store, each on a server that is up and at rest. */
export class Arena implements AsyncDisposable {
  readonly #store: Store
  readonly #form: Form
  readonly #witness = new Witness()
  #place: Place | undefined

  constructor(store: Store, form: Form) {
    this.#store = store
    this.#form = form
  }

  async perform(attack: Attack): Promise<Result> {
    const broken: string[] = []
    const slow: string[] = []
    const { target, quiet, before } = await this.#placeFor(attack)
    let lastedMs = 0
    const hit = await this.#witness.during(async () => {
      const run = this.#run(attack, target, broken, slow).then(ms => {
        lastedMs = ms
      })
      await Promise.all([run, sleep(bounds.windowMs[this.#form])])
    })
    judgePauses(hit, broken, slow)
    const figures = [describe(quiet, hit)]
    if (lastedMs >= bounds.lastingMs && isSlow(quiet, hit)) {
      const bare = attack.comparable === true ? await this.#againstBare(attack) : undefined
      judgePercentiles(quiet, hit, bare, slow)
      if (bare !== undefined) figures.push(`bare node:${target.setup.scheme}: ${describe(quiet, bare)}`)
    }
    if (target.isUp) {
      const after = await this.#returned(target, before, attack)
      if (after === undefined) broken.push('/metrics is not served afterwards')
      else {
        figures.push(describeReturn(before, after))
        broken.push(...notReturned(before, after, attack))
      }
    } else broken.push(`the process has ended (${await target.ended})`)
    // A server that is harmed, or keeps changes, says nothing about the next attack.
    if (broken.length > 0 || attack.keptBytes !== undefined) await this.#stop()
    return { attack, broken, slow: this.#form === 'long' ? slow : [], figures: figures.join('; ') }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stop()
    await this.#witness[Symbol.asyncDispose]()
  }

  /** Returns what the second caller sees of a bare Node server under the same attack. */
  async #againstBare(attack: Attack): Promise<Sight | undefined> {
    const known = this.#place
    if (known === undefined) return undefined
    await using target = await Target.start('embedded', { ...known.target.setup, program: 'bare' })
    this.#witness.aim(target, bounds.patienceMs[this.#form])
    try {
      return await this.#witness.during(() =>
        Promise.all([this.#run(attack, target, [], []), sleep(bounds.windowMs[this.#form])]),
      )
    } finally {
      this.#witness.aim(known.target, bounds.patienceMs[this.#form])
    }
  }

  /** @returns the milliseconds that the attack lasted, without restarts, which the second caller does not see */
  async #run(attack: Attack, target: Target, broken: string[], slow: string[]): Promise<number> {
    const began = performance.now()
    let restartMs = 0
    const over = new AbortController()
    setMaxListeners(0, over.signal)
    let restarts = false
    const abortAtEnd = () =>
      void target.ended.then(() => {
        if (!restarts) over.abort()
      })
    abortAtEnd()
    const scene: Scene = {
      target,
      form: this.#form,
      signal: over.signal,
      count: (short, long) => (this.#form === 'short' ? short : long),
      check: (condition, otherwise) => {
        if (!condition) broken.push(otherwise)
      },
      checkMs: (what, ms, boundMs) => {
        if (ms > boundMs) slow.push(`${what} took ${Math.round(ms)} ms`)
      },
      restart: async () => {
        restarts = true
        this.#witness.pause()
        const pausedAt = performance.now()
        try {
          return await target.restart()
        } finally {
          restartMs += performance.now() - pausedAt
          restarts = false
          abortAtEnd()
          this.#witness.resume()
        }
      },
    }
    const timer = setTimeout(() => {
      broken.push(`the attack was not over after ${bounds.attackMs / 1000} s`)
      over.abort()
    }, bounds.attackMs)
    try {
      await attack.run(scene)
    } catch (error) {
      broken.push(`the attack failed: ${error}`)
    } finally {
      clearTimeout(timer)
    }
    return performance.now() - began - restartMs
  }

  /** Waits until memory and descriptors have returned. @returns undefined if the server does not tell */
  async #returned(target: Target, before: Holding, attack: Attack): Promise<Holding | undefined> {
    const deadline = performance.now() + bounds.returnMs
    const readings: Holding[] = []
    do {
      try {
        readings.push(await holdingOf(target))
        if (notReturned(before, leastOf(readings), attack).length === 0) break
        await provokeCollection(target)
      } catch {
        await sleep(500)
      }
    } while (performance.now() < deadline)
    return readings.length === 0 ? undefined : leastOf(readings)
  }

  async #placeFor({ setup = usual, objects }: Attack): Promise<Place> {
    const wanted = objects?.[this.#form] ?? 0
    const known = this.#place
    if (known?.target.isUp && known.target.setup === setup && known.objects === wanted) return known
    await this.#stop()
    const target = await Target.start(this.#store, setup)
    try {
      await fill(target, 'neighbour', neighbourhood.objects, { [neighbourhood.label]: 'yes' })
      await fill(target, 'crowd', wanted, {})
      this.#witness.aim(target, bounds.patienceMs[this.#form])
      const quiet = await this.#witness.during(() => sleep(bounds.windowMs[this.#form]))
      const before = await restingHolding(target, wanted === 0 ? 0 : 40)
      this.#place = { target, objects: wanted, quiet, before }
      return this.#place
    } catch (error) {
      await target[Symbol.asyncDispose]()
      throw error
    }
  }

  async #stop(): Promise<void> {
    await this.#place?.target[Symbol.asyncDispose]()
    this.#place = undefined
  }
}

/** A server with its measurements before any attack. */
interface Place {
  readonly target: Target
  /** Number of objects in the collection besides those of the second caller. */
  readonly objects: number
  readonly quiet: Sight
  readonly before: Holding
}

/** Creates objects. @throws Error at the first refusal */
async function fill(
  target: Target,
  prefix: string,
  count: number,
  labels: Readonly<Record<string, string>>,
): Promise<void> {
  const { Agent } = target.setup.scheme === 'https' ? https : http
  const agent = new Agent({ keepAlive: true })
  const bodies = Array.from({ length: count }, (_, n) => ({
    method: 'POST',
    path: neighbourhood.collection,
    as: 'neighbour' as const,
    agent,
    body: JSON.stringify({
      apiVersion: 'items.example.com/v1',
      kind: 'Item',
      metadata: { name: `${prefix}-${n}`, labels: { ...labels, 'attack.example.com/n': String(n) } },
      spec: {
        rank: String(n).padStart(6, '0'),
        level: String((n * 7_919) % 1_000),
        tags: [`t${n % 50}`, `u${n % 7}`],
      },
    }),
  }))
  const replies = await callAll(target, bodies, 32)
  agent.destroy()
  const refused = replies.find(({ status }) => status !== 201)
  if (refused !== undefined) throw new Error(`an object was refused: ${refused.status} ${refused.text}`)
}

function judgePauses(hit: Sight, broken: string[], slow: string[]): void {
  for (const [what, { count, failures }] of Object.entries(hit)) {
    if (failures.length > 0)
      broken.push(`${what} failed ${failures.length} of ${count} times: ${failures[0]}`)
  }
  if (hit.livez.maxMs > bounds.livezMs) slow.push(`/livez took ${Math.round(hit.livez.maxMs)} ms`)
}

function isSlow(quiet: Sight, hit: Sight): boolean {
  const { getRatio, listRatio } = bounds
  return ratioOf(quiet.get, hit.get) > getRatio || ratioOf(quiet.list, hit.list) > listRatio
}

/** @param bare what the second caller sees of a bare server under the same attack, undefined if that says nothing */
function judgePercentiles(quiet: Sight, hit: Sight, bare: Sight | undefined, slow: string[]): void {
  const { getRatio, listRatio, bareRatio } = bounds
  for (const [what, bound] of [
    ['get', getRatio],
    ['list', listRatio],
  ] as const) {
    const ratio = ratioOf(quiet[what], hit[what])
    const isBareSlow = bare !== undefined && hit[what].p99Ms <= bareRatio * bare[what].p99Ms
    if (ratio > bound && !isBareSlow)
      slow.push(`the p99 of a ${what} was ${ratio.toFixed(1)} times the quiet one`)
  }
}

function ratioOf(quiet: Readings, hit: Readings): number {
  return hit.p99Ms / Math.max(quiet.p99Ms, bounds.quietMs)
}

function notReturned(before: Holding, after: Holding, { keptBytes = 0 }: Attack): string[] {
  const { returnRatio, warmUpBytes } = bounds
  const broken: string[] = []
  if (after.memory > before.memory * returnRatio + warmUpBytes + keptBytes)
    broken.push(`memory stays at ${mebi(after.memory)}, from ${mebi(before.memory)}`)
  if (after.descriptors > Math.ceil(before.descriptors * returnRatio))
    broken.push(`${after.descriptors} descriptors stay open, from ${before.descriptors}`)
  return broken
}

function describe(quiet: Sight, hit: Sight): string {
  const ms = (value: number) => value.toFixed(value < 10 ? 1 : 0)
  return [
    `/livez up to ${ms(hit.livez.maxMs)} ms`,
    `GET p99 ${ms(quiet.get.p99Ms)} → ${ms(hit.get.p99Ms)} ms`,
    `list p99 ${ms(quiet.list.p99Ms)} → ${ms(hit.list.p99Ms)} ms`,
  ].join(', ')
}

function describeReturn(before: Holding, after: Holding): string {
  return [
    `memory ${mebi(before.memory)} → ${mebi(after.memory)}`,
    `resident ${mebi(before.resident)} → ${mebi(after.resident)}`,
    `descriptors ${before.descriptors} → ${after.descriptors}`,
  ].join(', ')
}

function mebi(bytes: number): string {
  return `${Math.round(bytes / 1024 / 1024)} MiB`
}
