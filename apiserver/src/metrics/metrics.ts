import { ScrapedMetrics } from '@setpoint/controller-runtime/internal'
import { Gauge, Registry } from 'prom-client'
import type { ConsistencyCheck, LogFollower } from '../cache/index.ts'
import type { ModelRegistry } from '../model/index.ts'
import type { WatchHub } from '../watch/index.ts'
import { describeProcess } from './process-metrics.ts'
import { RequestMetrics } from './request-metrics.ts'

/** The rooms that are read at each scrape. */
interface MetricSources {
  readonly models: ModelRegistry
  readonly follower: LogFollower
  readonly hub: WatchHub
  /** Absent if the caches are not compared with the store. */
  readonly consistency?: Pick<ConsistencyCheck, 'countsOf'>
  /** The keys that sign tokens of service accounts. Absent if they are not checked. */
  readonly signingKeys?: { readonly isReadable: boolean }
}

const pluginPhases = ['Starting', 'Started', 'Failed', 'Disabled'] as const
type PluginPhase = (typeof pluginPhases)[number]

/**
 * Problems of a plugin by their type: clashes of unique values and failing index functions, stored objects, all others.
 */
type PluginProblems = Readonly<Record<'index' | 'stored' | 'other', number>>

/** The objects of a migration to another stored version. */
interface Migration {
  /** `<plural>.<group>` */
  readonly kind: string
  readonly total: number
  readonly done: number
  readonly failed: number
}

/** The metrics of one server. */
export class Metrics {
  readonly requests: RequestMetrics
  /** Other parts of this process register their metrics here. */
  readonly registry = new Registry()
  readonly #scraped = new ScrapedMetrics(this.registry)
  readonly #pluginPhase: Gauge<'plugin' | 'phase'>
  readonly #pluginReloadFailed: Gauge<'plugin'>
  readonly #pluginProblems: Gauge<'plugin' | 'type'>
  readonly #migrations: Gauge<'plugin' | 'resource' | 'state'>

  constructor(sources: MetricSources) {
    describeProcess(this.registry)
    this.requests = new RequestMetrics(this.registry)
    this.#pluginPhase = new Gauge({
      name: 'setpoint_plugin_phase',
      help: '1 for the present phase of a plugin, 0 for the others.',
      labelNames: ['plugin', 'phase'],
      registers: [this.registry],
    })
    this.#pluginReloadFailed = new Gauge({
      name: 'setpoint_plugin_reload_failed',
      help: '1 if the latest reload of a plugin failed, so that its previous code runs, else 0.',
      labelNames: ['plugin'],
      registers: [this.registry],
    })
    this.#pluginProblems = new Gauge({
      name: 'setpoint_plugin_problems',
      help: 'Problems in the status of a plugin: of indexes, of stored objects, and others.',
      labelNames: ['plugin', 'type'],
      registers: [this.registry],
    })
    this.#migrations = new Gauge({
      name: 'setpoint_migration_objects',
      help: 'Objects of a migration to another stored version that are done, have failed, or are pending.',
      labelNames: ['plugin', 'resource', 'state'],
      registers: [this.registry],
    })
    const { models, hub, follower } = sources
    // The kinds of definitions come and go.
    models.observe(() => {
      const isKnown = (resource: string) => models.holds(resource)
      for (const tallies of [this.requests, hub, follower]) tallies.keepTallies(isKnown)
    })
    this.#describeWatches(hub)
    this.#describeCaches(sources)
    this.#describeFollowing(sources)
  }

  /** The media type of the text. */
  get contentType(): string {
    return this.registry.contentType
  }

  /** Returns all metrics in Prometheus' text format. */
  text(): Promise<string> {
    return this.registry.metrics()
  }

  /** @param hasFailedReload true if its latest reload failed */
  pluginIs(plugin: string, present: PluginPhase, hasFailedReload: boolean): void {
    this.#pluginReloadFailed.set({ plugin }, hasFailedReload ? 1 : 0)
    for (const phase of pluginPhases) this.#pluginPhase.set({ plugin, phase }, phase === present ? 1 : 0)
  }

  /** Sets the problems of a plugin and the progress of its migrations. */
  pluginHas(plugin: string, problems: PluginProblems, migrations: readonly Migration[]): void {
    for (const [type, count] of Object.entries(problems)) this.#pluginProblems.set({ plugin, type }, count)
    for (const { kind: resource, total, done, failed } of migrations) {
      const states = { done, failed, pending: Math.max(0, total - done - failed) }
      for (const [state, count] of Object.entries(states))
        this.#migrations.set({ plugin, resource, state }, count)
    }
  }

  #describeWatches(hub: WatchHub): void {
    this.#scraped.gauge(
      'apiserver_longrunning_requests',
      'Open watches, including those of plugins in this process.',
      ['verb', 'group', 'version', 'resource'],
      () =>
        Array.from(hub.tallies(), ({ tally, group, version, plural }) => [
          tally.open,
          'WATCH',
          group,
          version,
          plural,
        ]),
    )
    this.#scraped.counter(
      'apiserver_watch_events_total',
      'Events sent to watches, including bookmarks.',
      ['group', 'version', 'kind'],
      () =>
        Array.from(hub.tallies(), ({ tally, group, version, kind }) => [tally.sent, group, version, kind]),
    )
    this.#scraped.counter(
      'apiserver_terminated_watchers_total',
      'Watches that were closed because their clients were too slow.',
      ['group', 'version', 'resource'],
      () =>
        Array.from(hub.tallies(), ({ tally, group, version, plural }) => [
          tally.tooSlow,
          group,
          version,
          plural,
        ]),
    )
  }

  #describeCaches({ models, follower, signingKeys }: MetricSources): void {
    this.#scraped.gauge(
      'apiserver_resource_objects',
      'Objects in the cache of a served kind.',
      ['resource'],
      function* () {
        for (const served of models.all()) {
          const cache = follower.cacheOf(served)
          if (cache !== undefined) yield [cache.store.size, served.title]
        }
      },
    )
    this.#scraped.gauge(
      'setpoint_cache_unreadable_objects',
      'Objects that cannot be read because their stored value cannot be decrypted or is malformed. Lists leave them out.',
      ['resource'],
      function* () {
        for (const served of models.all()) {
          const cache = follower.cacheOf(served)
          if (cache !== undefined) yield [cache.unreadable.size, served.title]
        }
        // They are no object, but are lost with the key of `secrets`, and an alert should say so.
        if (signingKeys !== undefined) yield [signingKeys.isReadable ? 0 : 1, 'signing-keys']
      },
    )
    this.#scraped.gauge(
      'setpoint_deleting_objects',
      'Objects that wait for their deletion, which finalizers hold up.',
      ['resource'],
      function* () {
        for (const served of models.all()) {
          const cache = follower.cacheOf(served)
          if (cache !== undefined) yield [cache.store.deletions.objects, served.title]
        }
      },
    )
    this.#scraped.gauge(
      'setpoint_oldest_deletion_timestamp_seconds',
      'When the deletion began that has waited longest, in seconds since the epoch; absent if none waits.',
      ['resource'],
      function* () {
        for (const served of models.all()) {
          const oldest = follower.cacheOf(served)?.store.deletions.oldest
          if (oldest !== undefined) yield [Date.parse(oldest) / 1000, served.title]
        }
      },
    )
    this.#scraped.gauge(
      'setpoint_cache_objects_read',
      'Objects that the latest build of a cache has read from the store so far.',
      ['resource'],
      function* () {
        for (const served of models.all()) {
          const objects = follower.objectsRead(served)
          if (objects !== undefined) yield [objects, served.title]
        }
      },
    )
  }

  #describeFollowing({ models, follower, consistency }: MetricSources): void {
    this.#scraped.gauge(
      'apiserver_watch_cache_resource_version',
      'The latest version of the store that the cache of a kind is known to equal.',
      ['group', 'resource'],
      function* () {
        for (const served of models.all()) {
          const { group, plural } = served.model
          if (follower.cacheOf(served) !== undefined) yield [follower.known, group, plural]
        }
      },
    )
    this.#scraped.counter(
      'apiserver_watch_cache_events_received_total',
      'Changes received from the log of the store.',
      ['group', 'resource'],
      () => Array.from(follower.tallies, ([kind, { received }]) => [received, ...partsOf(kind)]),
    )
    this.#scraped.counter(
      'setpoint_cache_rebuilds_total',
      'Caches rebuilt from a snapshot because the log was compacted or the cache differed from the store. Their watches end with 410.',
      ['group', 'resource'],
      () => Array.from(follower.tallies, ([kind, { rebuilt }]) => [rebuilt, ...partsOf(kind)]),
    )
    this.#scraped.counter(
      'apiserver_storage_consistency_checks_total',
      'Comparisons of caches with the store: failure means a difference, error that the comparison failed.',
      ['resource', 'status'],
      // From 0 on, because Prometheus does not see the increase of a counter that appears with 1.
      function* () {
        if (consistency === undefined) return
        for (const served of models.all()) {
          if (follower.cacheOf(served) === undefined) continue
          for (const [status, count] of Object.entries(consistency.countsOf(served.resource)))
            yield [count, served.title, status]
        }
      },
    )
  }
}

/** @param kind `<group>/<plural>` */
function partsOf(kind: string): [group: string, resource: string] {
  const [group = '', resource = ''] = kind.split('/')
  return [group, resource]
}
