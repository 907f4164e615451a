import type { Manager } from '@setpoint/controller-runtime'
import type { HealthCheck } from '@setpoint/controller-runtime/internal'
import type { LogFollower } from '../cache/index.ts'
import { type SpaceWatch, type Storage, WrongStoreError } from '../storage/index.ts'

export const healthDefaults = Object.freeze({
  /** Milliseconds for the store's part of a readiness check (Kubernetes allows etcd 2 s). */
  storeMs: 2000,
  /** Milliseconds that checks reuse a response of the store, so that probes cannot overload it. */
  storeCachedMs: 1000,
})

export type ManagerState = Pick<Manager, 'health' | 'leadership'>

/** How much space the store has: a few words, and details after a semicolon. */
export type StoreState = Pick<SpaceWatch, 'state'>

/** The objects that cannot be read: a few words, with details after a semicolon. Undefined if there are none. */
export interface UnreadableState {
  readonly state: string | undefined
}

/** The state of a plugin, for the verbose form of `/readyz`. It quotes no exception. */
export interface PluginProgress {
  readonly name: string
  /** `ok`, `failed`, or `starting`, with the indexes that are being built after a semicolon. */
  readonly progress: string
  /** True while the server is not ready because of it: until it has started or failed for the first time. */
  readonly isAwaited: boolean
}

/**
 * `/livez`, `/healthz` and `/readyz`. What is ready serves: the server is ready once each plugin has started or failed,
 * unless it is deferred. A plugin that fails, is enabled or is reloaded later does not make a ready server unready: its
 * own kinds respond with 503, and all others are served. The verbose form has a line for each plugin.
 */
export class Health {
  readonly #storage: Storage
  readonly #space: StoreState | undefined
  readonly #unreadable: UnreadableState | undefined
  readonly #follower: LogFollower
  #draining = false
  #starting = true
  #storeChecked: { at: number; result: Promise<string | undefined> } | undefined

  readonly #plugins: () => readonly PluginProgress[]
  readonly #manager: ManagerState | undefined

  constructor(parts: {
    storage: Storage
    /** The space of the store, if it is watched. */
    space?: StoreState
    unreadable?: UnreadableState
    follower: LogFollower
    plugins: () => readonly PluginProgress[]
    /** The controllers, if they run in this process. */
    manager?: ManagerState
  }) {
    this.#storage = parts.storage
    this.#space = parts.space
    this.#unreadable = parts.unreadable
    this.#follower = parts.follower
    this.#plugins = parts.plugins
    this.#manager = parts.manager
  }

  /** Call once the server's own kinds are served and those of plugins are registered. */
  started(): void {
    this.#starting = false
  }

  drain(): void {
    this.#draining = true
  }

  liveChecks(): readonly HealthCheck[] {
    return [{ name: 'ping' }, ...(this.#manager?.health().liveness ?? [])]
  }

  async readyChecks(): Promise<readonly HealthCheck[]> {
    const shutdown = this.#draining ? 'the server is shutting down' : undefined
    const caches = this.#follower.trouble
    return [
      { name: 'ping' },
      { name: 'shutdown', problem: shutdown },
      { name: 'store', problem: await this.#checkStore() },
      { name: 'caches', problem: caches },
      { name: 'startup', problem: this.#startup() },
    ]
  }

  live(form: HealthForm): HealthAnswer {
    return healthAnswer('livez', this.liveChecks(), form)
  }

  async ready(form: HealthForm): Promise<HealthAnswer> {
    const notes = this.#notes(form)
    return healthAnswer('readyz', await this.readyChecks(), form, notes)
  }

  #startup(): string | undefined {
    if (this.#starting) return 'kinds are still being registered'
    const awaited = this.#plugins().filter(({ isAwaited }) => isAwaited)
    if (awaited.length === 0) return undefined
    return `these plugins are still starting: ${awaited.map(({ name }) => name).join(', ')}`
  }

  /** Informational checks. They never affect readiness. */
  #notes({ detailed }: HealthForm): readonly string[] {
    const states = this.#plugins().map(({ name, progress }) => `plugin/${name} ${progress}`)
    const unreadable = this.#unreadable?.state
    if (unreadable !== undefined) states.unshift(`objects ${unreadable}`)
    if (this.#space !== undefined) states.unshift(`space ${this.#space.state}`)
    const notes = detailed ? states : states.map(state => state.replace(/;.*/, ''))
    return detailed ? [...notes, ...leadershipNotes(this.#manager)] : notes
  }

  #checkStore(): Promise<string | undefined> {
    const now = performance.now()
    if (this.#storeChecked === undefined || now - this.#storeChecked.at > healthDefaults.storeCachedMs) {
      const result = this.#storage.head({ signal: AbortSignal.timeout(healthDefaults.storeMs) }).then(
        ({ written }) => {
          // Without readers, this is how a server notices that its caches lag behind.
          this.#follower.expect(written)
          return undefined
        },
        (error: unknown) =>
          error instanceof WrongStoreError ? error.message : 'the store cannot be reached',
      )
      this.#storeChecked = { at: now, result }
    }
    return this.#storeChecked.result
  }
}

/** What the response to a probe contains. */
export interface HealthForm {
  /** Whether it has a line for each check even if all pass. */
  readonly verbose: boolean
  /** Whether it gives reasons and progress. Callers without credentials get names only. */
  readonly detailed: boolean
  /** The name of the only check that is asked for. Default: all of them. */
  readonly only?: string
  /** Names of checks that do not count. Default: none. */
  readonly excluded?: readonly string[]
}

export interface HealthAnswer {
  readonly status: 200 | 404 | 503
  readonly text: string
}

/** Describes the state of this process in the leader election, if there is one. */
export function leadershipNotes(manager: ManagerState | undefined): readonly string[] {
  const leadership = manager?.leadership
  if (leadership === undefined) return []
  const { lease, isLeader, leader, unready } = leadership
  const standing = isLeader ? 'leading' : `standing by, ${unready ?? `${leader} leads`}`
  return [`controllers ${standing} (lease ${lease})`]
}

/** Kubernetes' format: `ok`, or one line for each check if one fails or the client asks for it. */
export function healthAnswer(
  name: string,
  checks: readonly HealthCheck[],
  { verbose, detailed, only, excluded = [] }: HealthForm,
  notes: readonly string[] = [],
): HealthAnswer {
  const isAsked = (check: HealthCheck) =>
    only === undefined ? !excluded.includes(check.name) : check.name === only
  const results = checks.filter(isAsked)
  if (only !== undefined && results.length === 0)
    return { status: 404, text: `${name} has no such check; see /${name}?verbose` }
  const failed = results.some(({ problem }) => problem !== undefined)
  if (!failed && !verbose) return { status: 200, text: 'ok' }
  const lines = results.map(result =>
    result.problem === undefined
      ? `[+]${result.name} ok`
      : `[-]${result.name} failed: ${detailed ? result.problem : 'reason withheld'}`,
  )
  if (only === undefined) for (const note of notes) lines.push(`[+]${note}`)
  return {
    status: failed ? 503 : 200,
    text: [...lines, `${name} check ${failed ? 'failed' : 'passed'}`, ''].join('\n'),
  }
}
