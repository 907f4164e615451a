import { Readings, type Sample, samplesOf } from './metrics.ts'

/** A process that has responded. Behind a load balancer each reading may be of another one. */
export interface Server {
  /** Seconds since the epoch: processes are told apart by when they started. */
  readonly startedAt: number
  readonly readings: Readings
}

/** Servers that are kept; the one that has been silent for longest is forgotten. */
const keptServers = 16

export class Servers {
  readonly #known = new Map<number, Readings>()

  add(time: number, text: string): void {
    const samples = samplesOf(text)
    const startedAt = metricOf(samples, 'process_start_time_seconds') ?? 0
    const readings = this.#known.get(startedAt) ?? new Readings()
    readings.add(time, samples)
    // The latest is the last.
    this.#known.delete(startedAt)
    this.#known.set(startedAt, readings)
    const [oldest] = this.#known.keys()
    if (this.#known.size > keptServers && oldest !== undefined) this.#known.delete(oldest)
  }

  /** Those that have responded, the latest first. */
  get all(): Server[] {
    return [...this.#known].map(([startedAt, readings]) => ({ startedAt, readings })).reverse()
  }
}

export function metricOf(samples: readonly Sample[], of: string): number | undefined {
  return samples.find(({ name }) => name === of)?.value
}

export interface Fact {
  readonly name: string
  readonly value: string
  readonly isBad?: boolean
}

/** Says what the metrics of a server tell about it and its store. */
export function factsOf(samples: readonly Sample[]): Fact[] {
  const value = (name: string) => metricOf(samples, name)
  const {
    version = '',
    node = '',
    store = '',
    role = '',
  } = samples.find(({ name }) => name === 'setpoint_build_info')?.labels ?? {}
  const [size, used, free, quota] = [
    value('apiserver_storage_size_bytes'),
    value('setpoint_storage_used_bytes'),
    value('setpoint_storage_disk_free_bytes'),
    value('setpoint_storage_quota_bytes'),
  ]
  const room = [
    size === undefined ? '' : `${bytes(size)}`,
    used === undefined ? '' : `${bytes(used)} in use`,
    free === undefined ? '' : `${bytes(free)} free on its disk`,
    quota === undefined ? '' : `${bytes(quota)} allowed`,
  ].filter(each => each !== '')
  const [spent, commits] = [
    value('setpoint_storage_commit_duration_seconds_sum'),
    value('setpoint_storage_commit_duration_seconds_count'),
  ]
  const leads = samples.filter(each => each.name === 'leader_election_master_status')
  return [
    { name: 'Program', value: `Setpoint ${version}, Node ${node}` },
    { name: 'Role', value: roles[role] ?? role },
    ...leads.map(({ labels, value: leading }) => ({
      name: 'Leader',
      value: `${leading === 1 ? 'leads' : 'does not lead'} ${labels.name ?? ''}`,
    })),
    { name: 'Store', value: [store, ...room].join(', ') },
    ...(value('setpoint_storage_full') === 1
      ? [{ name: 'Space', value: 'The store has refused the latest write for lack of space.', isBad: true }]
      : []),
    ...(spent !== undefined && commits !== undefined && commits > 0
      ? [{ name: 'Commit', value: `${((spent / commits) * 1_000).toFixed(1)} ms on average since the start` }]
      : []),
    lagOf(samples),
    {
      name: 'Open watches',
      value: samples
        .reduce((sum, each) => (each.name === 'apiserver_longrunning_requests' ? sum + each.value : sum), 0)
        .toLocaleString('en'),
    },
  ]
}

const roles: Readonly<Record<string, string>> = {
  all: 'API and controllers',
  apiserver: 'API',
  controllers: 'controllers',
}

/** How far the caches of kinds are behind the furthest one. */
function lagOf(samples: readonly Sample[]): Fact {
  const versions = samples.filter(({ name }) => name === 'apiserver_watch_cache_resource_version')
  const newest = Math.max(0, ...versions.map(({ value }) => value))
  const behind = versions.filter(({ value }) => value < newest).sort((a, b) => a.value - b.value)
  const [furthest] = behind
  return {
    name: 'Caches',
    value:
      furthest === undefined
        ? `all ${versions.length} kinds are at version ${newest}`
        : `at version ${newest}; ${behind.length === 1 ? 'one kind is' : `${behind.length} kinds are`} behind, ${furthest.labels.resource} by ${newest - furthest.value}`,
  }
}

function bytes(count: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB']
  const power = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log10(Math.max(1, count)) / 3)))
  const scaled = count / 1_000 ** power
  return `${scaled < 10 && power > 0 ? scaled.toFixed(1) : Math.round(scaled)} ${units[power]}`
}
