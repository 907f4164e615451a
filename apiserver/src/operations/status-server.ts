import type { Transport } from '@setpoint/controller-runtime'
import type { TransportResponse } from '@setpoint/controller-runtime/internal'
import { failureOf, refusalOf } from './status-failures.ts'
import { ScrapedValues } from './status-metrics.ts'
import type { CertificateReport, ServerReport, StoreReport } from './status-report.ts'

/** A server to ask. */
export interface AskedServer {
  readonly url: string
  readonly transport: Pick<Transport, 'request'>
}

/** What one server tells of itself. */
export interface ServerAnswers {
  readonly server: Omit<ServerReport, 'behind'>
  readonly problems: readonly string[]
  readonly store: StoreReport | null
  readonly certificates: readonly CertificateReport[]
  /** The version that its caches have reached. Undefined if it is not known. */
  readonly position: number | undefined
  /** The time of its clock, in milliseconds since the epoch. */
  readonly nowMs: number
}

export const statusDefaults = Object.freeze({
  /** Milliseconds that a server has for a response. */
  timeoutMs: 10_000,
  /** As in the alerts. */
  certificateMs: 7 * 24 * 3_600_000,
  diskFreeBytes: 2 ** 30,
  eventLoopSeconds: 0.5,
  issuerFailingSeconds: 300,
  /**
   * Two reads of the files, so that one read of a half-written file does not count. The alerts wait longer, but who
   * asks has often just changed a file.
   */
  fileFailingSeconds: 4,
})

/** Asks a server for its checks and its metrics. Never rejects: what fails is a problem. */
export async function askServer({ url, transport }: AskedServer, nowMs: number): Promise<ServerAnswers> {
  const get = (path: string) => getFrom({ url, transport }, path)
  const unknown = { url, version: null, role: null, leads: null, eventLoopSeconds: null }
  let checks: TransportResponse
  let metrics: TransportResponse
  try {
    ;[checks, metrics] = await Promise.all([get('/readyz?verbose'), get('/metrics')])
  } catch (error) {
    return {
      server: { ...unknown, ready: false },
      problems: [`${url} cannot be reached: ${failureOf(error)}`],
      store: null,
      certificates: [],
      position: undefined,
      nowMs,
    }
  }
  const date = Date.parse(checks.headers.date ?? '')
  const serverMs = Number.isNaN(date) ? nowMs : date
  const isReady = checks.status === 200
  const problems = problemsOfChecks(url, checks)
  if (metrics.status !== 200) {
    problems.push(refusalOf(url, '/metrics', metrics))
    return {
      server: { ...unknown, ready: isReady },
      problems,
      store: null,
      certificates: [],
      position: undefined,
      nowMs: serverMs,
    }
  }
  const values = new ScrapedValues(metrics.body)
  const certificates = values.all('setpoint_certificate_expiration_timestamp_seconds').map(each => ({
    server: url,
    certificate: each.labels.certificate ?? '',
    expires: new Date(each.value * 1000).toISOString(),
  }))
  problems.push(...certificateProblems(certificates, serverMs), ...problemsOfValues(url, values))
  const positions = values.all('apiserver_watch_cache_resource_version').map(({ value }) => value)
  const leads = values.value('leader_election_master_status')
  return {
    server: {
      url,
      version: values.label('setpoint_build_info', 'version') ?? null,
      role: values.label('setpoint_build_info', 'role') ?? null,
      ready: isReady,
      leads: leads === undefined ? null : leads === 1,
      eventLoopSeconds: values.value('nodejs_eventloop_lag_p99_seconds') ?? null,
    },
    problems,
    store: storeOf(values),
    certificates,
    position: positions.length === 0 ? undefined : Math.max(...positions),
    nowMs: serverMs,
  }
}

/** @throws TransportError, or the reason of the time-out */
export function getFrom({ transport }: AskedServer, path: string): Promise<TransportResponse> {
  return transport.request({ method: 'GET', path, signal: AbortSignal.timeout(statusDefaults.timeoutMs) })
}

/**
 * The lines `[-]store failed: reason`, `[+]space nearly full; details` and `[+]objects some cannot be read; details`.
 */
function problemsOfChecks(url: string, response: TransportResponse): string[] {
  const problems = [...response.body.matchAll(/^\[-\](\S+) failed: (.*)$/gm)].map(
    ([, name, reason]) => `${url} is not ready: ${name}: ${reason}`,
  )
  for (const [, state = ''] of response.body.matchAll(/^\[\+\]space (.*)$/gm))
    if (state !== 'ok') problems.push(`the store is ${state.replace(';', ':')}`)
  for (const [, state = ''] of response.body.matchAll(/^\[\+\]objects (.*)$/gm))
    problems.push(
      `${url} cannot read some of what is stored${state.replace('some cannot be read', '').replace(';', ':')}`,
    )
  if (problems.length === 0 && response.status !== 200) problems.push(refusalOf(url, '/readyz', response))
  return problems
}

function certificateProblems(certificates: readonly CertificateReport[], nowMs: number): string[] {
  return certificates.flatMap(({ server, certificate, expires }) => {
    const leftMs = Date.parse(expires) - nowMs
    if (leftMs < 0) return [`the certificate ${certificate} of ${server} expired at ${expires}`]
    if (leftMs > statusDefaults.certificateMs) return []
    return [`the certificate ${certificate} of ${server} expires at ${expires}`]
  })
}

function problemsOfValues(url: string, values: ScrapedValues): string[] {
  const problems: string[] = []
  const free = values.value('setpoint_storage_disk_free_bytes')
  if (free !== undefined && free < statusDefaults.diskFreeBytes)
    problems.push(`the disk of the store of ${url} has ${Math.round(free / 2 ** 20)} MiB left`)
  const lag = values.value('nodejs_eventloop_lag_p99_seconds') ?? 0
  if (lag > statusDefaults.eventLoopSeconds)
    problems.push(`the event loop of ${url} is late by ${lag.toFixed(1)} s`)
  for (const { labels, value } of values.all('setpoint_file_failing_seconds'))
    if (value > statusDefaults.fileFailingSeconds)
      problems.push(
        labels.file === 'token-file'
          ? `${url} cannot reload the token file; after 10 minutes it refuses all tokens of the file`
          : `${url} cannot reload the files of --${labels.file}; the old ones are in use`,
      )
  for (const { labels, value } of values.all('setpoint_oidc_issuer_failing_seconds'))
    if (value > statusDefaults.issuerFailingSeconds)
      problems.push(
        `${url} cannot fetch the keys of the issuer ${labels.issuer}; tokens signed by a key that it has not fetched are refused`,
      )
  return problems
}

function storeOf(values: ScrapedValues): StoreReport {
  return {
    kind: values.label('setpoint_build_info', 'store') ?? '',
    sizeBytes: values.value('apiserver_storage_size_bytes') ?? null,
    usedBytes: values.value('setpoint_storage_used_bytes') ?? null,
    quotaBytes: values.value('setpoint_storage_quota_bytes') ?? null,
    diskFreeBytes: values.value('setpoint_storage_disk_free_bytes') ?? null,
    full: values.value('setpoint_storage_full') === 1,
  }
}
