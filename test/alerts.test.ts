import { copyFile, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { dump, load } from 'js-yaml'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { blocksOf, fileOf } from './support/doc-blocks.ts'
import { pick, release, render } from './support/helm.ts'
import { arrayOf, type Fields, fieldsOf, textOf } from './support/json.ts'
import { promtool } from './support/prometheus.ts'

/**
 * Prometheus evaluates the alerts that the chart renders: each has series that make it fire, and others that do not.
 */

const tests = await readFile(new URL('fixtures/alerts/alerts.test.yaml', import.meta.url), 'utf8')

let folder: string
let rules: readonly Fields[]

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-alerts-'))
  const { objects } = await render({ prometheusRule: { enabled: true } })
  const { spec } = pick(objects, 'PrometheusRule', release.fullname)
  rules = arrayOf(spec.groups).flatMap(group => arrayOf(fieldsOf(group).rules).map(fieldsOf))
  // The expectations leave out the links, which have a test of their own.
  await writeFile(join(folder, 'alerts.yaml'), dump(spec).replace(/^ *runbook_url:.*\n/gm, ''))
  await writeFile(join(folder, 'alerts.test.yaml'), tests)
})
afterAll(() => rm(folder, { recursive: true, force: true }))

it('Prometheus takes the rules', async () => {
  const { code, output } = await promtool(
    folder,
    'check',
    'rules',
    '--lint=all',
    '--lint-fatal',
    'alerts.yaml',
  )
  expect(code, output).toBe(0)
  expect(output).toContain(`${rules.length} rules found`)
})

it('the rule of the documentation fires for old and for missing backups of the CronJob of the chart', async () => {
  const page = await readFile(new URL('../docs/operations/backup.md', import.meta.url), 'utf8')
  const rule = blocksOf('backup.md', page).find(block => fileOf(block) === 'backup-alerts.yaml')?.text ?? ''
  const { objects } = await render({ backup: { enabled: true } })
  const name = objects.find(({ kind }) => kind === 'CronJob')?.name.replace(release.fullname, 'setpoint')
  expect(rule).toContain(`cronjob="${name}"`)
  await writeFile(join(folder, 'backup-alerts.yaml'), rule)
  const fixture = new URL('fixtures/alerts/backup-alerts.test.yaml', import.meta.url)
  await copyFile(fixture, join(folder, 'backup-alerts.test.yaml'))
  const { code, output } = await promtool(folder, 'test', 'rules', 'backup-alerts.test.yaml')
  expect(code, output).toBe(0)
})

it('each alert fires when it should, with the text that it should, and not otherwise', async () => {
  const { code, output } = await promtool(folder, 'test', 'rules', 'alerts.test.yaml')
  expect(output).not.toContain('FAILED')
  expect(code, output).toBe(0)
})

it('each alert links to a runbook, and the index by symptom has every runbook', async () => {
  const root = new URL('../', import.meta.url)
  const index = await readFile(new URL('docs/operations/README.md', root), 'utf8')
  const pages = await readdir(new URL('docs/operations/runbooks/', root))
  const links = rules.map(({ annotations }) => textOf(fieldsOf(annotations).runbook_url))
  const paths = pages.map(page => `docs/operations/runbooks/${page}`)
  expect(links.filter(link => !paths.includes(link))).toEqual([])
  expect(pages.filter(page => !index.includes(`(runbooks/${page})`))).toEqual([])
})

it('no alert is left out of these tests', () => {
  const expected = arrayOf(fieldsOf(load(tests)).tests).flatMap(test =>
    arrayOf(fieldsOf(test).alert_rule_test).map(each => {
      const { alertname, exp_alerts = [] } = fieldsOf(each)
      return { alert: textOf(alertname), fires: arrayOf(exp_alerts).length > 0 }
    }),
  )
  const names = rules.map(({ alert }) => textOf(alert)).sort()
  for (const fires of [true, false])
    expect(
      [...new Set(expected.filter(each => each.fires === fires).map(({ alert }) => alert))].sort(),
    ).toEqual(names)
})
