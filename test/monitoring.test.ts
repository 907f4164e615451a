import { readFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { load } from 'js-yaml'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Api } from './support/api.ts'
import { type Certificates, makeCertificates } from './support/certificates.ts'
import { type EtcdProcess, startEtcd } from './support/etcd.ts'
import { arrayOf, fieldsOf, textOf } from './support/json.ts'
import { gadgetsOf, pluginsPath } from './support/kinds.ts'
import { Prometheus } from './support/prometheus.ts'
import { SecureApi } from './support/secure-api.ts'
import { type ServerProcess, startServer } from './support/server.ts'
import { Users } from './support/users.ts'
import { copyFixture, eventually } from './support/worlds.ts'

/** The dashboard, the alerts and the reference name only metrics and labels that a server exports. */

const read = (path: string) => readFileSync(new URL(`../${path}`, import.meta.url), 'utf8')

/** Labels that Prometheus adds. */
const addedLabels = ['job', 'instance']

/** The metrics of a scrape by name: their types, and the labels of their samples. */
type Metrics = ReadonlyMap<string, { readonly type: string; readonly labels: ReadonlySet<string> }>

function readMetrics(text: string): Metrics {
  const metrics = new Map<string, { type: string; labels: Set<string> }>()
  for (const [, name = '', type = ''] of text.matchAll(/^# TYPE (\w+) (\w+)$/gm))
    metrics.set(name, { type, labels: metrics.get(name)?.labels ?? new Set() })
  for (const [, series = '', labels = ''] of text.matchAll(/^(\w+)\{(.*)\} \S+$/gm))
    for (const [, label = ''] of labels.matchAll(/(\w+)="/g))
      if (label !== 'le') metrics.get(metricOf(series, metrics))?.labels.add(label)
  return metrics
}

/** Returns the metric that a series belongs to. */
function metricOf(series: string, metrics: ReadonlyMap<string, unknown>): string {
  return metrics.has(series) ? series : series.replace(/_(bucket|sum|count)$/, '')
}

/** The tables of the reference: the types and labels of each metric. */
function documented(path: string): Metrics {
  const rows = read(path).matchAll(/^\| `(\w+)` *\| (counter|gauge|histogram) *\| ([^|]*)\|/gm)
  return new Map(
    Array.from(rows, ([, name = '', type = '', cell = '']) => {
      const labels = cell.replace(/\(.*\)/, '').matchAll(/`(\w+)`/g)
      return [name, { type, labels: new Set(Array.from(labels, ([, label = '']) => label)) }] as const
    }),
  )
}

/** The names and labels in a query of Prometheus. `up` is Prometheus' own, and has only the labels that it adds. */
function partsOf(query: string) {
  const selectors = [...query.matchAll(/(\w+)\{([^}]*)\}/g)].map(([, series = '', matchers = '']) => ({
    series,
    labels: [...matchers.matchAll(/(\w+)(?==|!=|=~|!~)/g)].map(([, label = '']) => label),
  }))
  const grouped = [...query.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, list = '']) => list.split(/, */))
  const bare = query.replace(
    /"[^"]*"|\{[^}]*\}|\[[^\]]*\]|\b(by|on) \([^)]*\)|histogram_quantile|last_over_time|\bup\b/g,
    '',
  )
  return { series: bare.match(/\b[a-z]+_\w+/g) ?? [], selectors, grouped }
}

describe('the dashboard and the alerts', () => {
  let users: Users<'root'>
  let certificates: Certificates
  let folders: readonly string[] = []
  let etcd: EtcdProcess | undefined
  const servers: ServerProcess[] = []
  let scraped: string
  let exported: Metrics
  let known: Metrics
  let prometheus: Prometheus

  beforeAll(async () => {
    users = await Users.make({ root: ['setpoint:admins'] })
    certificates = await makeCertificates()
    folders = [await copyFixture('demo-plugin')]
    const audit = ['--audit-log', join(certificates.folder, 'audit.log')]
    const tls = [
      '--tls-cert',
      certificates.cert,
      '--tls-key',
      certificates.key,
      '--client-ca',
      certificates.ca,
    ]
    // No one listens there, which has metrics too.
    const oidc = ['--oidc-issuer', 'https://127.0.0.1:1', '--oidc-audience', 'setpoint']
    const args = [...users.args, ...tls, ...audit, ...oidc]
    const embedded = await startServer({ plugins: folders, args })
    servers.push(embedded)
    etcd = await startEtcd({ unsafeNoFsync: true })
    const onEtcd = await startServer({ store: 'etcd', etcd, plugins: folders })
    servers.push(onEtcd)
    const targets = [
      { job: 'machine', url: embedded.url, token: users.tokenOf('root') },
      { job: 'other', url: onEtcd.url },
    ]
    prometheus = await Prometheus.start(targets, read('charts/setpoint/files/alerts.yaml'))
    const ca = readFileSync(certificates.ca, 'utf8')
    const apis = [new SecureApi(embedded.url, ca, users.tokenOf('root')), new Api(onEtcd.url)]
    for (const api of apis) await gadgetsOf(api).create('a', { email: 'a@example.com' })
    // So that some requests have waited, which has a panel.
    const [, onePlain] = apis
    await Promise.all(Array.from({ length: 300 }, () => onePlain?.get(pluginsPath)))
    // Sizes are read in the background.
    await eventually(async () => {
      const texts = await Promise.all(apis.map(api => api.get('/metrics')))
      scraped = texts.map(({ text }) => text).join('\n')
      exported = readMetrics(scraped)
      for (const name of ['setpoint_storage_quota_bytes', 'setpoint_storage_disk_free_bytes'])
        expect(texts.map(({ text }) => text).join()).toMatch(new RegExp(`^${name} \\d`, 'm'))
    })
    known = new Map([
      ...exported,
      ...documented('docs/reference/sdk/metrics.md'),
      ...documented('docs/reference/metrics.md'),
    ])
  })
  afterAll(async () => {
    await prometheus?.stop()
    await Promise.all(servers.map(server => server.stop()))
    await etcd?.stop()
    await users?.remove()
    for (const folder of [...folders, certificates?.folder ?? ''].filter(Boolean))
      await rm(folder, { recursive: true, force: true })
  })

  /** Checks a query. Returns the labels of its result, or undefined if it does not say. */
  function checkQuery(query: string): readonly string[] | undefined {
    const { series, selectors, grouped } = partsOf(query)
    expect(series.length, query).toBeGreaterThan(0)
    const labelsOf = (name: string) => known.get(metricOf(name, known))?.labels ?? new Set<string>()
    for (const name of series) expect([...exported.keys()], query).toContain(metricOf(name, exported))
    for (const { series, labels } of selectors)
      for (const label of labels) expect([...labelsOf(series), ...addedLabels], query).toContain(label)
    const all = [...series.flatMap(name => [...labelsOf(name)]), ...addedLabels, 'le']
    for (const label of grouped) expect(all, query).toContain(label)
    if (/\bsum\(/.test(query)) return []
    return grouped.length > 0 ? grouped : all
  }

  it('the dashboard names metrics and labels that exist, and has no legend of a label that its query drops', () => {
    const { panels } = fieldsOf(JSON.parse(read('charts/setpoint/dashboards/setpoint.json')))
    const targets = arrayOf(panels).flatMap(panel => arrayOf(fieldsOf(panel).targets ?? []).map(fieldsOf))
    expect(targets.length).toBeGreaterThan(30)
    for (const { expr, legendFormat } of targets) {
      const labels = checkQuery(textOf(expr))
      for (const [, label] of textOf(legendFormat).matchAll(/\{\{(\w+)\}\}/g))
        expect(labels, textOf(expr)).toContain(label)
    }
  })

  it('Prometheus has a result for every panel, with its own labels only', async () => {
    const { panels } = fieldsOf(JSON.parse(read('charts/setpoint/dashboards/setpoint.json')))
    const targets = arrayOf(panels).flatMap(panel => arrayOf(fieldsOf(panel).targets ?? []).map(fieldsOf))
    const empty: string[] = []
    for (const { expr } of targets) {
      // As Grafana replaces its variables, for all jobs and instances.
      const query = textOf(expr)
        .replace(/\$(job|instance)\b/g, '.*')
        .replaceAll('$__rate_interval', '4s')
      // A range needs two scrapes. A panel of failures has no series.
      const wanted = / [>=]=? |code=~"\[45\]|oldest_deletion/.test(query) ? 0 : 1
      await eventually(async () => {
        const { length } = await prometheus.query(query)
        if (length < wanted) throw new Error(`no result: ${query}`)
      }, 20_000).catch(error => empty.push(String(error)))
    }
    expect(empty).toEqual([])
  })

  it('Prometheus evaluates every alert, and none is on without a reason', async () => {
    await eventually(async () => {
      for (const { name, health, lastError } of await prometheus.rules())
        expect([name, health, lastError]).toEqual([name, 'ok', undefined])
    })
    const on = (await prometheus.rules()).filter(({ state }) => state !== 'inactive').map(({ name }) => name)
    // The certificates are valid for two days, and the plugin ships a document with a fault.
    expect(new Set(on)).toEqual(new Set(['SetpointCertificateExpiresSoon', 'SetpointPluginProblems']))
  })

  it('a counter of which a single increase matters begins at 0, because Prometheus does not see its first value', () => {
    for (const series of [
      'apiserver_storage_consistency_checks_total{resource="gadgets.demo.example.com",status="failure"}',
      'apiserver_flowcontrol_rejected_requests_total{priority_level="writes",flow_schema="users",reason="time-out"}',
      'apiserver_audit_error_total{plugin="log"}',
      'setpoint_log_lines_dropped_total{reason="buffer_full"}',
    ])
      expect(scraped).toContain(`${series} 0\n`)
  })

  it('the dashboard needs no labels but those that Prometheus adds', () => {
    expect(read('charts/setpoint/dashboards/setpoint.json')).not.toMatch(/\b(namespace|pod|container)\b/)
  })

  it('the alerts name metrics and labels that exist', () => {
    const { groups } = fieldsOf(load(read('charts/setpoint/files/alerts.yaml')))
    const rules = arrayOf(groups).flatMap(group => arrayOf(fieldsOf(group).rules).map(fieldsOf))
    expect(rules.length).toBeGreaterThan(15)
    for (const { alert, expr, annotations } of rules) {
      const labels = checkQuery(textOf(expr).replace(/\s+/g, ' '))
      for (const [, label] of textOf(fieldsOf(annotations).summary).matchAll(/\$labels\.(\w+)/g))
        expect(labels, textOf(alert)).toContain(label)
    }
  })

  it('the reference has every metric of a server with its type and labels, and no other', () => {
    const own = documented('docs/reference/metrics.md')
    const elsewhere = /^(process|nodejs|plugin|controller_runtime|workqueue)_|^setpoint_(runnable|schedule)_/
    expect([...own.keys()].filter(name => !exported.has(name))).toEqual([])
    for (const [name, { type, labels }] of exported) {
      if (elsewhere.test(name)) continue
      expect([name, own.get(name)?.type]).toEqual([name, type])
      if (labels.size > 0)
        expect([name, [...labels].sort()]).toEqual([name, [...(own.get(name)?.labels ?? [])].sort()])
    }
  })
})
