import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client'
import type { ConsistencyCheck, LogFollower } from '../cache/index.ts'
import type { ModelRegistry } from '../model/index.ts'
import type { WatchHub } from '../watch/index.ts'
import { RequestMetrics } from './request-metrics.ts'

/** The rooms that are read at each scrape. */
interface MetricSources {
  readonly models: ModelRegistry
  readonly follower: LogFollower
  readonly hub: WatchHub
  /** Absent if the caches are not compared with the store. */
  readonly consistency?: Pick<ConsistencyCheck, 'counts'>
}

const pluginPhases = ['Starting', 'Started', 'Failed', 'Disabled'] as const
type PluginPhase = (typeof pluginPhases)[number]

/** The metrics of one server. */
export class Metrics {
  readonly requests: RequestMetrics
  /** Other parts of this process register their metrics here. */
  readonly registry = new Registry()
  readonly #pluginPhase: Gauge<'plugin' | 'phase'>

  constructor(sources: MetricSources) {
    collectDefaultMetrics({ register: this.registry })
    this.requests = new RequestMetrics(this.registry)
    this.#pluginPhase = new Gauge({
      name: 'setpoint_plugin_phase',
      help: '1 for the present phase of a plugin, 0 for the others.',
      labelNames: ['plugin', 'phase'],
      registers: [this.registry],
    })
    this.#describeWatches(sources.hub)
    this.#describeCaches(sources)
    this.#describeFollowing(sources)
  }

  /** The media type of the text. */
  get contentType(): string {
    return this.registry.contentType
  }

  /** Returns all metrics in Prometheus' text format. */
  async text(): Promise<string> {
    return `${await this.registry.metrics()}${this.requests.durationText()}`
  }

  pluginIs(plugin: string, present: PluginPhase): void {
    for (const phase of pluginPhases) this.#pluginPhase.set({ plugin, phase }, phase === present ? 1 : 0)
  }

  #describeWatches(hub: WatchHub): void {
    const registers = [this.registry]
    new Gauge({
      name: 'apiserver_longrunning_requests',
      help: 'Open watches, including those of plugins in this process.',
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
      help: 'Events sent to watches, including bookmarks.',
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
      help: 'Watches that were closed because their clients were too slow.',
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
    const registers = [this.registry]
    new Gauge({
      name: 'apiserver_resource_objects',
      help: 'Objects in the cache of a served kind.',
      labelNames: ['resource'],
      registers,
      collect() {
        this.reset()
        for (const served of models.all()) {
          const cache = follower.cacheOf(served)
          if (cache !== undefined) this.set({ resource: served.title }, cache.store.size)
        }
      },
    })
    new Gauge({
      name: 'setpoint_cache_objects_read',
      help: 'Objects that the latest build of a cache has read from the store so far.',
      labelNames: ['resource'],
      registers,
      collect() {
        this.reset()
        for (const served of models.all()) {
          const objects = follower.objectsRead(served)
          if (objects !== undefined) this.set({ resource: served.title }, objects)
        }
      },
    })
  }

  #describeFollowing({ models, follower, consistency }: MetricSources): void {
    const registers = [this.registry]
    new Gauge({
      name: 'apiserver_watch_cache_resource_version',
      help: 'The latest version of the store that the cache of a kind is known to equal.',
      labelNames: ['group', 'resource'],
      registers,
      collect() {
        this.reset()
        for (const served of models.all()) {
          const { group, plural: resource } = served.model
          if (follower.cacheOf(served) !== undefined) this.set({ group, resource }, follower.known)
        }
      },
    })
    new Counter({
      name: 'apiserver_watch_cache_events_received_total',
      help: 'Changes received from the log of the store.',
      labelNames: ['group', 'resource'],
      registers,
      collect() {
        this.reset()
        for (const [kind, { received }] of follower.tallies) this.inc(labelsOf(kind), received)
      },
    })
    new Counter({
      name: 'setpoint_cache_rebuilds_total',
      help: 'Caches rebuilt from a snapshot because the log was compacted or the cache differed from the store. Their watches end with 410.',
      labelNames: ['group', 'resource'],
      registers,
      collect() {
        this.reset()
        for (const [kind, { rebuilt }] of follower.tallies) this.inc(labelsOf(kind), rebuilt)
      },
    })
    new Counter({
      name: 'apiserver_storage_consistency_checks_total',
      help: 'Comparisons of caches with the store: failure means a difference, error that the comparison failed.',
      labelNames: ['resource', 'status'],
      registers,
      collect() {
        this.reset()
        for (const [kind, counts] of consistency?.counts ?? []) {
          const { group, resource } = labelsOf(kind)
          for (const [status, count] of Object.entries(counts))
            this.inc({ resource: `${resource}.${group}`, status }, count)
        }
      },
    })
  }
}

/** @param kind `<group>/<plural>` */
function labelsOf(kind: string): { group: string; resource: string } {
  const [group = '', resource = ''] = kind.split('/')
  return { group, resource }
}
