import type { LogFollower } from '../cache/index.ts'
import type { Storage } from '../storage/index.ts'

export const healthDefaults = Object.freeze({
  /** Milliseconds that the store has to answer a readiness check (Kubernetes' etcd readiness: 2 s). */
  storeMs: 2000,
  /** Milliseconds for which one answer of the store serves all checks, so that probes cannot burden it. */
  storeCachedMs: 1000,
})

interface Check {
  readonly name: string
  /** Why it fails; undefined where it does not. */
  run(): Promise<string | undefined>
}

/** How a plugin is doing, for whoever asks for details. */
export interface PluginProgress {
  readonly name: string
  /** `ok`, or what it is about, or why it has failed. */
  readonly progress: string
}

/**
 * `/livez`, `/healthz` and `/readyz`. A plugin that is starting or has failed does not make the server unready: its
 * own kinds answer 503, and all others are served. The verbose form has a line for each of them.
 */
export class Health {
  readonly #storage: Storage
  readonly #follower: LogFollower
  #draining = false
  #starting = true
  #storeChecked: { at: number; result: Promise<string | undefined> } | undefined

  readonly #plugins: () => readonly PluginProgress[]

  constructor(parts: {
    storage: Storage
    follower: LogFollower
    plugins: () => readonly PluginProgress[]
  }) {
    this.#storage = parts.storage
    this.#follower = parts.follower
    this.#plugins = parts.plugins
  }

  /** The server's own kinds are served. */
  started(): void {
    this.#starting = false
  }

  drain(): void {
    this.#draining = true
  }

  live(verbose: boolean): Promise<HealthAnswer> {
    return answer('livez', [{ name: 'ping', run: async () => undefined }], verbose)
  }

  ready(verbose: boolean): Promise<HealthAnswer> {
    const checks: Check[] = [
      { name: 'ping', run: async () => undefined },
      { name: 'shutdown', run: async () => (this.#draining ? 'the server is shutting down' : undefined) },
      { name: 'store', run: () => this.#checkStore() },
      { name: 'caches', run: async () => this.#follower.trouble },
      {
        name: 'startup',
        run: async () => (this.#starting ? 'the kinds of the server itself are starting' : undefined),
      },
    ]
    return answer('readyz', checks, verbose, this.#plugins())
  }

  #checkStore(): Promise<string | undefined> {
    const now = performance.now()
    if (this.#storeChecked === undefined || now - this.#storeChecked.at > healthDefaults.storeCachedMs) {
      const result = this.#storage.head({ signal: AbortSignal.timeout(healthDefaults.storeMs) }).then(
        () => undefined,
        () => 'the store cannot be reached',
      )
      this.#storeChecked = { at: now, result }
    }
    return this.#storeChecked.result
  }
}

export interface HealthAnswer {
  readonly status: 200 | 503
  readonly text: string
}

/** Kubernetes' form: `ok`, or a line for each check when one fails or when asked. */
async function answer(
  name: string,
  checks: readonly Check[],
  verbose: boolean,
  plugins: readonly PluginProgress[] = [],
): Promise<HealthAnswer> {
  const results = await Promise.all(
    checks.map(async check => ({ name: check.name, problem: await check.run() })),
  )
  const failed = results.some(({ problem }) => problem !== undefined)
  if (!failed && !verbose) return { status: 200, text: 'ok' }
  const lines = results.map(result =>
    result.problem === undefined ? `[+]${result.name} ok` : `[-]${result.name} failed: ${result.problem}`,
  )
  for (const plugin of plugins) lines.push(`[+]plugin/${plugin.name} ${plugin.progress.replace(/\s+/g, ' ')}`)
  return {
    status: failed ? 503 : 200,
    text: [...lines, `${name} check ${failed ? 'failed' : 'passed'}`, ''].join('\n'),
  }
}
