import {
  type Clock,
  type HealthCheck,
  ScrapedMetrics,
  systemClock,
} from '@setpoint/controller-runtime/internal'
import type { Registry } from 'prom-client'

/** What every process tells of itself. */
interface ProgramSources {
  readonly version: string
  /** Empty if it is not known. */
  readonly commit: string
  readonly role: string
  /** Empty for a process without a store. */
  readonly store: string
  /** Default the system's. */
  readonly clock?: Pick<Clock, 'now'>
  readonly files: {
    reloads(): readonly {
      readonly file: string
      readonly reloads: number
      readonly failures: number
      readonly failingSeconds: number
    }[]
  }
  readonly certificates: {
    expirations(): readonly { readonly certificate: string; readonly seconds: number }[]
  }
  readonly health: {
    liveChecks(): readonly HealthCheck[]
    readyChecks(): readonly HealthCheck[] | Promise<readonly HealthCheck[]>
  }
}

/** Registers the version of a process, its health checks, its certificates and its watched files. */
export function describeProgram(registry: Registry, sources: ProgramSources): void {
  const { version, commit, role, store, files, certificates, health, clock = systemClock } = sources
  const scraped = new ScrapedMetrics(registry)
  scraped.gauge(
    'setpoint_build_info',
    'Always 1. The labels are the version and the commit of Setpoint, the version of Node, the store and the role.',
    ['version', 'commit', 'node', 'store', 'role'],
    () => [[1, version, commit, process.version, store, role]],
  )
  scraped.gauge(
    'setpoint_clock_timestamp_seconds',
    'The time of the clock of this process, in seconds since the epoch.',
    [],
    () => [[clock.now() / 1000]],
  )
  scraped.gauge(
    'kubernetes_healthcheck',
    '1 if a check of /livez or /readyz passes, else 0. Checked at each scrape.',
    ['name', 'type'],
    async () => {
      const ready = await health.readyChecks()
      const samplesOf = (type: string, checks: readonly HealthCheck[]) =>
        checks.map(({ name, problem }) => [problem === undefined ? 1 : 0, name, type] as const)
      return [...samplesOf('livez', health.liveChecks()), ...samplesOf('readyz', ready)]
    },
  )
  scraped.gauge(
    'setpoint_certificate_expiration_timestamp_seconds',
    'When a certificate expires, in seconds since the epoch; of several authorities, the one that is valid longest.',
    ['certificate'],
    () => certificates.expirations().map(({ certificate, seconds }) => [seconds, certificate]),
  )
  scraped.counter(
    'setpoint_file_reloads_total',
    'Reloads of files that have changed. A lasting failure counts once a minute.',
    ['file', 'outcome'],
    () =>
      files.reloads().flatMap(({ file, reloads, failures }) => [
        [reloads, file, 'success'],
        [failures, file, 'failure'],
      ]),
  )
  scraped.gauge(
    'setpoint_file_failing_seconds',
    'Seconds since a file could last be read and used; 0 if it can. What was loaded before stays in use.',
    ['file'],
    () => files.reloads().map(({ file, failingSeconds }) => [failingSeconds, file]),
  )
}
