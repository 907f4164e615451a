import { setTimeout as sleep } from 'node:timers/promises'
import { type Revision, toRevision } from '@setpoint/controller-runtime/api'
import type { FaultProxy } from '@setpoint/controller-runtime/testing'
import type { EtcdProcess } from '../support/etcd.ts'
import type { RunRecorder } from '../support/watch-record/index.ts'
import type { World } from '../support/worlds.ts'
import type { Random } from './random.ts'
import type { Say } from './say.ts'

export interface TroublesOptions {
  readonly world: World
  /** The proxies of the watchers with trouble. */
  readonly proxies: readonly FaultProxy[]
  readonly recorder: RunRecorder
  readonly random: Random
  readonly say: Say
  /** Milliseconds until the server is no longer restarted, once each trouble has happened. Default: never. */
  readonly restartsMs?: number
}

/** Milliseconds of changes that a compaction keeps. Watchers that were away longer get a 410. */
const keptMs = 2_000

/**
 * Causes the troubles of a soak one after another. `bag` repeats a trouble only after all others. Faults of the proxies
 * run in parallel.
 */
export class Troubles {
  /** How often each has happened. */
  readonly counts: Record<string, number> = {}
  readonly #options: TroublesOptions
  readonly #aborted = new AbortController()
  readonly #running: Promise<void>
  #allHappened: () => void = () => {}
  /** Resolves once each has happened. */
  readonly round = new Promise<void>(resolve => {
    this.#allHappened = resolve
  })
  /** The times of acknowledged versions, to choose where to compact. */
  readonly #past: { readonly atMs: number; readonly version: Revision }[] = []

  constructor(options: TroublesOptions) {
    this.#options = options
    this.#running = this.#run()
    this.#running.catch(() => {})
  }

  /** Settles when it has stopped. @throws Error on an unexpected failure */
  get ended(): Promise<void> {
    return this.#running
  }

  /** Stops the troubles and repairs everything. */
  async stop(): Promise<void> {
    this.#aborted.abort()
    await this.#running
    for (const proxy of this.#options.proxies) calm(proxy)
  }

  async #run(): Promise<void> {
    const { world, random, say } = this.#options
    const { members } = world
    const { restartsMs = Number.POSITIVE_INFINITY } = this.#options
    const restartsUntil = performance.now() + restartsMs
    const isEtcd = members.length > 0
    const restarts: Record<string, () => unknown> = {
      'kill the server': () => this.#restart('SIGKILL'),
      'stop the server': () => this.#restart('SIGTERM'),
      ...(isEtcd && { 'away over a compaction': () => this.#away() }),
    }
    const bag: Record<string, () => unknown> = {
      cut: () => this.#onSome(({ watches }) => watches.cut()),
      'cut again': () => this.#onSome(({ watches }) => watches.cut()),
      truncate: () => this.#onSome(({ watches }) => watches.truncateAfter(random.below(20_000), 'once')),
      delay: () => this.#forSome(proxy => proxy.watches.delay(random.between(5, 400))),
      hold: () => this.#forSome(proxy => proxy.watches.hold()),
      'hold what is open': () => this.#forSome(proxy => proxy.watches.hold('open')),
      'hold, then cut': () =>
        this.#forSome(
          proxy => proxy.watches.hold('open'),
          proxy => proxy.watches.cut(),
        ),
      refuse: () =>
        this.#forSome(proxy => {
          proxy.watches.refuse(random.pick([503, 429, 'connection'] as const))
          proxy.watches.cut()
        }),
      ...(isEtcd && {
        'kill etcd': () => this.#killEtcd(random.pick(members)),
        'stall etcd': () => this.#stall(random.pick(members)),
        compact: () => this.#compact(keptMs),
        'compact again': () => this.#compact(keptMs),
      }),
    }
    for (let round = 1; !this.#aborted.signal.aborted; round++) {
      const mayRestart = round === 1 || performance.now() < restartsUntil
      const all = mayRestart ? { ...bag, ...restarts } : bag
      for (const [what, happen] of random.shuffled(Object.entries(all))) {
        if (!(await this.#pause(random.between(100, 700)))) return
        this.counts[what] = (this.counts[what] ?? 0) + 1
        const began = performance.now()
        await happen()
        say(`${what} (${Math.round(performance.now() - began)} ms)`)
      }
      this.#allHappened()
    }
  }

  /** False when there should be no more troubles. */
  async #pause(ms: number): Promise<boolean> {
    const { recorder } = this.#options
    this.#past.push({ atMs: performance.now(), version: recorder.acknowledged })
    await sleep(ms, undefined, { signal: this.#aborted.signal }).catch(() => {})
    return !this.#aborted.signal.aborted
  }

  #some(): FaultProxy[] {
    const { proxies, random } = this.#options
    return random.shuffled(proxies).slice(0, 1 + random.below(Math.ceil(proxies.length / 3)))
  }

  #onSome(fault: (proxy: FaultProxy) => void): void {
    for (const proxy of this.#some()) fault(proxy)
  }

  /** Starts a temporary fault at some proxies, in parallel with other troubles. */
  #forSome(begin: (proxy: FaultProxy) => void, end: (proxy: FaultProxy) => void = () => {}): void {
    const { random } = this.#options
    for (const proxy of this.#some()) {
      begin(proxy)
      const timer = setTimeout(
        () => {
          end(proxy)
          calm(proxy)
        },
        random.between(100, 3_000),
      )
      timer.unref()
    }
  }

  async #restart(signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    const { world, random } = this.#options
    await world.server.kill(signal)
    await sleep(random.between(0, 300))
    await world.server.restart()
  }

  async #killEtcd(etcd: EtcdProcess): Promise<void> {
    const { random } = this.#options
    await etcd.kill('SIGKILL')
    await sleep(random.between(0, 500))
    await etcd.restart()
  }

  async #stall(etcd: EtcdProcess): Promise<void> {
    const { random } = this.#options
    await etcd.pause()
    await sleep(random.between(100, 1_000))
    etcd.resume()
  }

  /** Compacts etcd up to a point in time. */
  async #compact(agoMs: number): Promise<void> {
    const { recorder, random, world } = this.#options
    const etcd = random.pick(world.members)
    const limit = performance.now() - agoMs
    const version = this.#past.findLast(({ atMs }) => atMs <= limit)?.version ?? toRevision(0)
    if (version === 0) return
    recorder.compacts(version)
    const response = await fetch(`${etcd.endpoint}/v3/kv/compaction`, {
      method: 'POST',
      body: JSON.stringify({ revision: String(version) }),
    })
    const text = await response.text()
    if (!response.ok && !text.includes('compacted')) throw new Error(`etcd did not compact: ${text}`)
  }

  /** Compacts past the versions of some disconnected watchers, also in the server's own history. */
  async #away(): Promise<void> {
    const away = this.#some()
    for (const proxy of away) {
      proxy.watches.refuse('connection')
      proxy.watches.cut()
    }
    await this.#pause(500)
    // They miss something.
    const { recorder } = this.#options
    const missed = recorder.acknowledged
    while (recorder.acknowledged === missed) await sleep(20)
    this.#past.push({ atMs: performance.now(), version: this.#options.recorder.acknowledged })
    await this.#compact(0)
    await this.#restart('SIGKILL')
    for (const proxy of away) calm(proxy)
  }
}

function calm({ watches }: FaultProxy): void {
  watches.release()
  watches.accept()
  watches.delay(0)
  watches.truncateAfter(undefined)
}
