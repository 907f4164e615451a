import { Observations, ObservedHistogram, ScrapedMetrics } from '@setpoint/controller-runtime/internal'
import type { Registry } from 'prom-client'
import type { ServedModel } from '../model/index.ts'

export const requestDefaults = Object.freeze({
  /**
   * Upper bounds in seconds: those of Kubernetes, and a lower one, because most reads here are faster than its first.
   */
  buckets: Object.freeze([
    0.001, 0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45,
    60,
  ]),
})

/** The verbs of Kubernetes. All other methods count as one verb, so that clients cannot create series. */
export type Verb =
  | 'GET'
  | 'LIST'
  | 'WATCH'
  | 'POST'
  | 'PUT'
  | 'PATCH'
  | 'DELETE'
  | 'DELETECOLLECTION'
  | 'other'

/** Requests in progress: those that may change objects, and all others, as in Kubernetes. */
interface InFlight {
  mutating: number
  readOnly: number
}

/** The scope of a request in the metrics. */
type RequestScope = 'object' | 'collection' | 'watch'

export function verbOf(method: string, scope: RequestScope): Verb {
  if (scope === 'watch') return 'WATCH'
  switch (method) {
    case 'GET':
    case 'HEAD':
      return scope === 'collection' ? 'LIST' : 'GET'
    case 'DELETE':
      return scope === 'collection' ? 'DELETECOLLECTION' : 'DELETE'
    case 'POST':
    case 'PUT':
    case 'PATCH':
      return method
    default:
      return 'other'
  }
}

/** The counts for one verb of one kind. */
interface Tally {
  /** Responses by status code. */
  readonly codes: Map<number, number>
  readonly seconds: Observations
}

/** The counts for one kind. */
interface KindTallies {
  readonly group: string
  readonly resource: string
  /** By the version of the path, and verb. */
  readonly versions: Map<string, Map<Verb, Tally>>
}

const labelNames = ['verb', 'group', 'version', 'resource'] as const

/**
 * Counts and times HTTP requests. Requests without a kind have an empty group, version and resource.
 *
 * A request only increments plain numbers. prom-client hashes the labels at each observation, which costs 2 µs of the
 * 35 µs of a GET by name. The number of series is bounded by kinds, their versions, verbs and codes.
 */
export class RequestMetrics {
  /** By resource, '' without one. A reload replaces the model of a resource, and its counters must not fall. */
  readonly #tallies = new Map<string, KindTallies>()
  readonly inFlight: InFlight = { mutating: 0, readOnly: 0 }

  constructor(registry: Registry) {
    const each = () => this.#each()
    const scraped = new ScrapedMetrics(registry)
    scraped.gauge(
      'apiserver_current_inflight_requests',
      'Requests in progress, waiting ones included. Watches count until their start.',
      ['request_kind'],
      () => Object.entries(this.inFlight).map(([kind, count]) => [count, kind]),
    )
    scraped.counter(
      'apiserver_request_total',
      'Completed requests by verb, kind and status code.',
      [...labelNames, 'code'],
      function* () {
        for (const { labels, tally } of each()) {
          const { verb, group, version, resource } = labels
          for (const [code, count] of tally.codes) yield [count, verb, group, version, resource, String(code)]
        }
      },
    )
    new ObservedHistogram(
      {
        name: 'apiserver_request_duration_seconds',
        help: 'Seconds from the arrival of a request to its response, without watches.',
        labelNames,
        registers: [registry],
      },
      function* () {
        for (const { labels, tally } of each())
          if (labels.verb !== 'WATCH') yield [labels, tally.seconds] as const
      },
    )
  }

  /** Records the start of a request. */
  begin(method: string): RequestRecord {
    return new RequestRecord(this, method)
  }

  /** @param version the name of a version of the kind; empty without a kind */
  answered(
    served: ServedModel | undefined,
    version: string,
    verb: Verb,
    code: number,
    seconds: number,
  ): void {
    const tally = this.#tallyOf(served, version, verb)
    tally.codes.set(code, (tally.codes.get(code) ?? 0) + 1)
    // The duration of a watch is not a latency.
    if (verb === 'WATCH') return
    tally.seconds.observe(seconds)
  }

  /** Forgets the counts of kinds that are gone. @param isKnown takes `<group>/<plural>` */
  keepTallies(isKnown: (resource: string) => boolean): void {
    for (const resource of this.#tallies.keys())
      if (resource !== '' && !isKnown(resource)) this.#tallies.delete(resource)
  }

  *#each() {
    for (const { group, resource, versions } of this.#tallies.values()) {
      for (const [version, verbs] of versions) {
        for (const [verb, tally] of verbs) yield { labels: { verb, group, version, resource }, tally }
      }
    }
  }

  #tallyOf(served: ServedModel | undefined, version: string, verb: Verb): Tally {
    const key = served?.resource ?? ''
    let kind = this.#tallies.get(key)
    if (kind === undefined) {
      const { group = '', plural: resource = '' } = served?.model ?? {}
      kind = { group, resource, versions: new Map() }
      this.#tallies.set(key, kind)
    }
    const { versions } = kind
    let verbs = versions.get(version)
    if (verbs === undefined) {
      verbs = new Map()
      versions.set(version, verbs)
    }
    let tally = verbs.get(verb)
    if (tally === undefined) {
      tally = { codes: new Map(), seconds: new Observations(requestDefaults.buckets) }
      verbs.set(verb, tally)
    }
    return tally
  }
}

/** One request in progress. */
export class RequestRecord {
  /** Milliseconds that it has waited for its turn, for its body, and for the store. */
  queueMs = 0
  bodyMs = 0
  storeMs = 0
  readonly #metrics: RequestMetrics
  readonly #method: string
  readonly #kind: keyof InFlight
  readonly #began = performance.now()
  #served: ServedModel | undefined
  #version = ''
  #scope: RequestScope = 'object'

  constructor(metrics: RequestMetrics, method: string) {
    this.#metrics = metrics
    this.#method = method
    this.#kind = method === 'GET' || method === 'HEAD' || method === 'OPTIONS' ? 'readOnly' : 'mutating'
    metrics.inFlight[this.#kind]++
  }

  get verb(): Verb {
    return verbOf(this.#method, this.#scope)
  }

  get kind(): ServedModel | undefined {
    return this.#served
  }

  /** Sets the kind, the version of the path, and the scope of the request. */
  setTarget(served: ServedModel, version: string, scope: RequestScope): void {
    this.#served = served
    this.#version = version
    this.#scope = scope
  }

  /**
   * Ends the request. Must be called once.
   * @param code undefined if there is no response, because the client has left
   * @returns the milliseconds that it took
   */
  end(code: number | undefined): number {
    const ms = performance.now() - this.#began
    this.#metrics.inFlight[this.#kind]--
    if (code !== undefined) this.#metrics.answered(this.#served, this.#version, this.verb, code, ms / 1000)
    return ms
  }
}
