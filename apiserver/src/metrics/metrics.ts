import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client'
import type { LogFollower } from '../cache/index.ts'
import type { ModelRegistry } from '../model/model-registry.ts'
import type { WatchHub } from '../watch/index.ts'
import { RequestMetrics } from './request-metrics.ts'

/** What is asked when somebody scrapes. */
export interface MetricSources {
  readonly models: ModelRegistry
  readonly follower: LogFollower
  readonly hub: WatchHub
}

export const pluginPhases = ['Starting', 'Started', 'Failed'] as const
export type PluginPhase = (typeof pluginPhases)[number]

/** The metrics of one server. */
export class Metrics {
  readonly requests: RequestMetrics
  readonly #registry = new Registry()
  readonly #pluginPhase: Gauge<'plugin' | 'phase'>

  constructor(sources: MetricSources) {
    collectDefaultMetrics({ register: this.#registry })
    this.requests = new RequestMetrics(this.#registry)
    this.#pluginPhase = new Gauge({
      name: 'setpoint_plugin_phase',
      help: '1 for the phase that a plugin is in, 0 for the others.',
      labelNames: ['plugin', 'phase'],
      registers: [this.#registry],
    })
    this.#describeWatches(sources.hub)
    this.#describeCaches(sources)
  }

  /** Of the text. */
  get contentType(): string {
    return this.#registry.contentType
  }

  /** Everything in Prometheus' text format. */
  async text(): Promise<string> {
    return `${await this.#registry.metrics()}${this.requests.durationText()}`
  }

  pluginIs(plugin: string, present: PluginPhase): void {
    for (const phase of pluginPhases) this.#pluginPhase.set({ plugin, phase }, phase === present ? 1 : 0)
  }

  #describeWatches(hub: WatchHub): void {
    const registers = [this.#registry]
    new Gauge({
      name: 'apiserver_longrunning_requests',
      help: 'Watches that are open, those of plugins in this process included.',
      labelNames: ['verb', 'group', 'version', 'resource'],
      registers,
      collect() {
        for (const [{ model }, { open }] of hub.tallies()) {
          const { group, version, plural: resource } = model
          this.set({ verb: 'WATCH', group, version, resource }, open)
        }
      },
    })
    new Counter({
      name: 'apiserver_watch_events_total',
      help: 'Events sent to watches, bookmarks included.',
      labelNames: ['group', 'version', 'kind'],
      registers,
      collect() {
        this.reset()
        for (const [{ model }, { sent }] of hub.tallies()) {
          const { group, version, kind } = model
          this.inc({ group, version, kind }, sent)
        }
      },
    })
    new Counter({
      name: 'apiserver_terminated_watchers_total',
      help: 'Watches that were ended because their clients were too slow.',
      labelNames: ['group', 'version', 'resource'],
      registers,
      collect() {
        this.reset()
        for (const [{ model }, { tooSlow }] of hub.tallies()) {
          const { group, version, plural: resource } = model
          this.inc({ group, version, resource }, tooSlow)
        }
      },
    })
  }

  #describeCaches({ models, follower }: MetricSources): void {
    const registers = [this.#registry]
    new Gauge({
      name: 'apiserver_resource_objects',
      help: 'Objects in the cache of a kind that is served.',
      labelNames: ['resource'],
      registers,
      collect() {
        this.reset()
        for (const served of models.all()) {
          const cache = follower.cacheOf(served)
          const { group, plural } = served.model
          if (cache !== undefined) this.set({ resource: `${plural}.${group}` }, cache.store.size)
        }
      },
    })
    new Gauge({
      name: 'setpoint_cache_objects_read',
      help: 'Objects that the latest building of a cache has read from the store so far.',
      labelNames: ['resource'],
      registers,
      collect() {
        this.reset()
        for (const served of models.all()) {
          const { group, plural } = served.model
          const objects = follower.objectsRead(served)
          if (objects !== undefined) this.set({ resource: `${plural}.${group}` }, objects)
        }
      },
    })
  }
}
