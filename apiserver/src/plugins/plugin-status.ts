import { setTimeout as delay } from 'node:timers/promises'
import { isApiError } from '@setpoint/controller-runtime/api'
import type { Logger } from '../log/index.ts'
import type { Metrics } from '../metrics/index.ts'
import type { ServedModel } from '../model/index.ts'
import { defaultWriteOptions } from '../registry/index.ts'
import type { ActorWrites } from './actor-writes.ts'
import type { PluginStatus } from './plugin-kind.ts'

/** Milliseconds between attempts to write a status while the store is unavailable. */
const retryMs = 1000

/** Reason of the condition `Ready` if a source cannot be loaded. */
const loadError = 'LoadError'

/** Phase, and reason of the condition `Ready`, of a plugin that a server does not have. */
const notInstalled = 'NotInstalled'

/**
 * The fields of a status that do not outlive it. `routes` does: a server that starts does not know the routes of a
 * disabled plugin, and responds with 503 below those that the last status names.
 */
const cleared = Object.freeze({
  phase: null,
  message: null,
  version: null,
  source: null,
  kinds: null,
  conditions: null,
  migrations: null,
  problemCount: null,
  problems: null,
})

/** Writes the `Plugin` objects. Retries the newest status of each plugin until it is stored. */
export class PluginStatuses {
  readonly #served: ServedModel
  readonly #writes: ActorWrites
  readonly #metrics: Metrics
  readonly #log: Logger
  readonly #signal: AbortSignal
  readonly #ready: Promise<void>
  /** The latest status of each plugin. */
  readonly #latest = new Map<string, PluginStatus>()
  /** Those that are not stored yet. */
  readonly #wanted = new Map<string, PluginStatus>()
  readonly #writing = new Map<string, Promise<void>>()
  /** Writes other than those of a status. They are not repeated. */
  readonly #background = new Set<Promise<void>>()

  /** Writes start when `ready` has resolved, because the kind itself needs the store to start. */
  constructor(parts: {
    served: ServedModel
    writes: ActorWrites
    metrics: Metrics
    log: Logger
    signal: AbortSignal
    ready: Promise<void>
  }) {
    this.#served = parts.served
    this.#writes = parts.writes
    this.#metrics = parts.metrics
    this.#log = parts.log
    this.#signal = parts.signal
    // Rejects only when the server stops, and then the signal is aborted too.
    this.#ready = parts.ready.catch(() => {})
  }

  /** @param problems counts for the metrics; without them the metrics keep theirs */
  publish(name: string, status: PluginStatus, problems?: Parameters<Metrics['pluginHas']>[1]): void {
    const { phase, conditions = [] } = status
    const hasFailedReload = conditions.some(each => each.type === 'Reloaded' && each.status === 'False')
    if (phase !== undefined) this.#metrics.pluginIs(name, phase, hasFailedReload)
    if (problems !== undefined) this.#metrics.pluginHas(name, problems, status.migrations ?? [])
    this.#latest.set(name, status)
    this.#wanted.set(name, status)
    if (this.#writing.has(name)) return
    const writing = this.#write(name).finally(() => this.#writing.delete(name))
    this.#writing.set(name, writing)
  }

  /**
   * Stores the status of a plugin once more if a server has overwritten it that does not have the plugin, or whose
   * unique indexes are superseded while those of this server are in force. The other server may be about to stop, as in
   * a rolling upgrade. `stored` returns the reason of a condition in the store.
   */
  defend(name: string, stored: (condition: string) => string | undefined): void {
    const indexes = 'UniqueIndexesInForce'
    const own = this.#latest.get(name)?.conditions?.find(({ type }) => type === indexes)
    const isSuperseded = stored(indexes) === 'Superseded' && own?.reason === 'InForce'
    if (isSuperseded || stored('Ready') === notInstalled) this.restore(name)
  }

  /** Stores the status of a plugin once more, after its object was deleted. */
  restore(name: string): void {
    const status = this.#latest.get(name)
    if (status !== undefined) this.publish(name, status)
  }

  /** Reports a source that cannot be loaded. Of a plugin that is disabled nothing is expected, so it has not failed. */
  publishLoadError(
    name: string,
    reason: string,
    { source, enabled }: { readonly source: string; readonly enabled: boolean },
  ): void {
    const lastTransitionTime = new Date().toISOString()
    const message = enabled ? reason : `spec.enabled is false; ${reason}`
    this.publish(name, {
      phase: enabled ? 'Failed' : 'Disabled',
      message,
      source,
      conditions: [{ type: 'Ready', status: 'False', reason: loadError, message, lastTransitionTime }],
    })
  }

  /**
   * Says in the object of a plugin that this server does not have it. Called at the start only, so that servers with
   * different plugins do not overwrite each other again and again: one that has the plugin restores its status. What
   * the object says of kinds and routes stays.
   */
  markNotInstalled(name: string): void {
    const message = 'no server that runs has this plugin'
    const lastTransitionTime = new Date().toISOString()
    const ready = { type: 'Ready', status: 'False', reason: notInstalled, message, lastTransitionTime }
    const phase = { phase: notInstalled, message, conditions: [ready] }
    const status = { ...phase, migrations: null, problemCount: null, problems: null }
    const patch = { type: 'merge', document: { status } } as const
    this.#inBackground(name, 'failed to mark a plugin that is not installed', async () => {
      try {
        await this.#writes.patch(this.#served, name, patch, 'status', defaultWriteOptions)
      } catch (error) {
        if (!isApiError(error, 'NotFound')) throw error
      }
    })
  }

  /** Deletes the object that `publishLoadError` stored for a source that has loaded since, under another name. */
  forgetLoadError(name: string, source: string): void {
    this.#latest.delete(name)
    this.#inBackground(name, 'failed to delete an outdated plugin status', () => this.#forget(name, source))
  }

  #inBackground(plugin: string, failure: string, write: () => Promise<void>): void {
    const writing = this.#ready
      .then(write)
      .catch(error => {
        if (!this.#signal.aborted) this.#log.warn({ plugin, err: error }, failure)
      })
      .finally(() => this.#background.delete(writing))
    this.#background.add(writing)
  }

  async #forget(name: string, source: string): Promise<void> {
    const live = await this.#writes.readLive(this.#served, name)
    const { uid } = live?.stored.object.metadata ?? {}
    const status = live?.stored.object.status as PluginStatus | undefined
    const isLoadError = status?.conditions?.some(({ reason }) => reason === loadError)
    if (uid === undefined || !isLoadError || status?.source !== source) return
    await this.#writes.delete(this.#served, name, { uid, versions: [] }, defaultWriteOptions)
  }

  /** Resolves when everything published so far is stored, or the server stops. */
  async settled(): Promise<void> {
    await Promise.all([...this.#writing.values(), ...this.#background])
  }

  async #write(name: string): Promise<void> {
    await this.#ready
    for (;;) {
      const status = this.#wanted.get(name)
      if (status === undefined) return
      try {
        await this.#store(name, status)
        if (this.#wanted.get(name) === status) this.#wanted.delete(name)
      } catch (error) {
        if (this.#signal.aborted) return
        this.#log.warn({ plugin: name, err: error }, 'failed to write the status of a plugin, retrying')
        await delay(retryMs, undefined, { signal: this.#signal }).catch(() => {})
        if (this.#signal.aborted) return
      }
    }
  }

  async #store(name: string, status: PluginStatus): Promise<void> {
    const patch = { type: 'merge', document: { status: { ...cleared, ...status } } } as const
    try {
      await this.#writes.patch(this.#served, name, patch, 'status', defaultWriteOptions)
    } catch (error) {
      if (!isApiError(error, 'NotFound')) throw error
      const { apiVersion, kind } = this.#served.model
      await this.#writes
        .create(this.#served, { apiVersion, kind, metadata: { name } }, defaultWriteOptions)
        .catch(taken => {
          // Another server may have created it at the same moment.
          if (!isApiError(taken, 'AlreadyExists')) throw taken
        })
      await this.#writes.patch(this.#served, name, patch, 'status', defaultWriteOptions)
    }
  }
}
