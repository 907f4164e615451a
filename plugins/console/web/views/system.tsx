import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { consoleHref } from '../api/address.ts'
import { pathOfKind } from '../api/discovery.ts'
import { ApiFailure, get, request, wordsOf } from '../api/http.ts'
import { type ApiObject, fieldsOf, listOf, textOf } from '../api/json.ts'
import { tell, type World } from '../app-state.ts'
import { LiveList } from '../model/live-list.ts'
import { chartedMetrics, Samples } from '../model/metrics.ts'
import { Age, Value } from './cell.tsx'
import { useAsync } from './use-async.ts'

/** How the server is: its plugins, its leader, its health, and the metrics that matter. */
export function System({ world }: { world: World }) {
  const version = useAsync(() => get('/version'), [])
  return (
    <div class="system">
      <h1>System</h1>
      <p class="quiet">
        Setpoint {textOf(version?.gitVersion) || textOf(version?.version)} {textOf(version?.platform)}
      </p>
      <Plugins world={world} />
      <Leaders world={world} />
      <Health />
      <Charts />
    </div>
  )
}

function useList(
  world: World,
  of: (group: string, plural: string) => boolean,
  query: Record<string, string>,
) {
  const kind = world.listed.find(({ kind: { group, plural } }) => of(group, plural))?.kind
  const list = useMemo(
    () =>
      kind === undefined
        ? undefined
        : new LiveList(kind, undefined, new URLSearchParams({ size: '500', ...query })),
    [kind],
  )
  useEffect(() => () => list?.close(), [list])
  const rows = list?.listed.value?.rows.filter(({ isGone }) => !isGone) ?? []
  return { kind, objects: rows.map(({ object }) => object) }
}

function Plugins({ world }: { world: World }) {
  const { kind, objects } = useList(
    world,
    (group, plural) => plural === 'plugins' && group.startsWith('plugins.'),
    {
      sort: 'metadata.name,asc',
    },
  )
  const mayPatch =
    useAsync(async () => kind !== undefined && world.rights.may('patch', kind), [kind]) ?? false
  if (kind === undefined) return null
  const enable = async (name: string, enabled: boolean) => {
    try {
      await request(pathOfKind(kind, undefined, name), {
        method: 'PATCH',
        contentType: 'application/merge-patch+json',
        body: { spec: { enabled } },
      })
      tell(`${enabled ? 'Enabled' : 'Disabled'} plugin ${name}.`)
    } catch (error) {
      tell(wordsOf(error))
    }
  }
  return (
    <section aria-labelledby="plugins">
      <h2 id="plugins">Plugins</h2>
      <ul class="plugins">
        {objects.map(plugin => (
          <PluginEntry
            key={plugin.metadata.uid}
            plugin={plugin}
            href={consoleHref(pathOfKind(kind, undefined, plugin.metadata.name))}
            enable={mayPatch ? enable : undefined}
          />
        ))}
      </ul>
    </section>
  )
}

function PluginEntry({
  plugin,
  href,
  enable,
}: {
  plugin: ApiObject
  href: string
  enable: ((name: string, enabled: boolean) => Promise<void>) | undefined
}) {
  const { name } = plugin.metadata
  const status = fieldsOf(plugin.status)
  const isEnabled = fieldsOf(plugin.spec).enabled !== false
  const problems = listOf(status.problems).map(fieldsOf)
  const migrations = listOf(status.migrations).map(fieldsOf)
  return (
    <li>
      <div class="plugin-title">
        <a href={href}>{name}</a> <Value value={status.phase} type="string" />
        <span class="quiet">{textOf(status.version)}</span>
        {enable !== undefined && name !== 'console' && (
          <button type="button" onClick={() => void enable(name, !isEnabled)}>
            {isEnabled ? 'Disable' : 'Enable'} {name}
          </button>
        )}
      </div>
      {textOf(status.message) !== '' && status.phase !== 'Started' && (
        <div class="message">{textOf(status.message)}</div>
      )}
      {migrations.map(({ kind, to, total, done, failed }) => (
        <div key={`${kind} ${to}`}>
          Migrating {textOf(kind)} to {textOf(to)}: {String(done)} of {String(total)}
          {Number(failed) > 0 && `, ${failed} failed`}{' '}
          <progress aria-label={`Migration of ${kind}`} max={Number(total)} value={Number(done)} />
        </div>
      ))}
      {problems.length > 0 && (
        <details>
          <summary>{problems.length === 1 ? 'One problem' : `${problems.length} problems`}</summary>
          <ul>
            {problems.map(({ source, message }) => (
              <li key={`${source} ${message}`}>
                <code>{textOf(source)}</code>: {textOf(message)}
              </li>
            ))}
          </ul>
        </details>
      )}
    </li>
  )
}

function Leaders({ world }: { world: World }) {
  const { objects } = useList(
    world,
    (group, plural) => group === 'coordination.k8s.io' && plural === 'leases',
    {},
  )
  if (objects.length === 0) return null
  return (
    <section>
      <h2>Leaders</h2>
      <ul class="plain-list">
        {objects.map(lease => {
          const { holderIdentity, renewTime } = fieldsOf(lease.spec)
          return (
            <li key={lease.metadata.uid}>
              <code>{lease.metadata.name}</code>{' '}
              {textOf(holderIdentity) === '' ? 'nobody' : textOf(holderIdentity)}
              {typeof renewTime === 'string' && (
                <span class="quiet">
                  {' '}
                  renewed <Age time={renewTime} /> ago
                </span>
              )}
            </li>
          )
        })}
      </ul>
    </section>
  )
}

/** Milliseconds between two readings of health and metrics. */
const readMs = 5_000

function Health() {
  const [lines, setLines] = useState<readonly string[]>([])
  const [problem, setProblem] = useState('')
  useRegularly(async () => {
    try {
      const { body } = await request('/readyz?verbose', { accept: 'text/plain' })
      setLines(String(body).trim().split('\n'))
      setProblem('')
    } catch (error) {
      setProblem(
        error instanceof ApiFailure && error.code === 503 ? 'The server is not ready.' : wordsOf(error),
      )
    }
  })
  return (
    <section>
      <h2>Health</h2>
      {problem !== '' && (
        <div role="alert" class="alert">
          {problem}
        </div>
      )}
      <ul class="checks">
        {lines
          .filter(line => /^\[[+-]\]/.test(line))
          .map(line => (
            <li key={line.split(' ')[0]} class={line.startsWith('[+]') ? 'tone good' : 'tone bad'}>
              {line.slice(3)}
            </li>
          ))}
      </ul>
    </section>
  )
}

function Charts() {
  const samples = useMemo(() => new Samples(), [])
  const [problem, setProblem] = useState('')
  const [, redraw] = useState(0)
  useRegularly(async () => {
    try {
      const { body } = await request('/metrics', { accept: 'text/plain' })
      samples.add(Date.now() / 1000, String(body))
      redraw(count => count + 1)
      setProblem('')
    } catch (error) {
      setProblem(wordsOf(error))
    }
  })
  if (problem !== '')
    return (
      <section>
        <h2>Metrics</h2>
        <p class="quiet">{problem}</p>
      </section>
    )
  return (
    <section>
      <h2>Metrics</h2>
      <div class="charts">
        {chartedMetrics.map(({ title, unit }, at) => (
          <Chart key={title} title={title} unit={unit} times={samples.times} values={samples.valuesOf(at)} />
        ))}
      </div>
    </section>
  )
}

function Chart({
  title,
  unit,
  times,
  values,
}: {
  title: string
  unit: string
  times: readonly number[]
  values: readonly (number | null)[]
}) {
  const element = useRef<HTMLDivElement>(null)
  const drawn = useRef<
    { set(times: readonly number[], ...values: readonly (readonly (number | null)[])[]): void } | undefined
  >(undefined)
  const latest = useRef({ times, values })
  latest.current = { times, values }
  useEffect(() => {
    let remove = () => {}
    let isGone = false
    void import('../plot/plot.ts').then(({ plot }) => {
      if (isGone || element.current === null) return
      const chart = plot(element.current, [{ name: title, unit }], 120)
      drawn.current = chart
      remove = chart.remove
      chart.set(latest.current.times, latest.current.values)
    })
    return () => {
      isGone = true
      remove()
    }
  }, [])
  drawn.current?.set(times, values)
  const last = values.at(-1)
  return (
    <figure>
      <figcaption>
        {title}: {last === undefined || last === null ? '–' : `${Math.round(last * 100) / 100}${unit}`}
      </figcaption>
      <div ref={element} aria-hidden="true" />
    </figure>
  )
}

/** Runs now and regularly, while the page can be seen. */
function useRegularly(run: () => Promise<void>): void {
  useEffect(() => {
    void run()
    const timer = setInterval(() => {
      if (!document.hidden) void run()
    }, readMs)
    return () => clearInterval(timer)
  }, [])
}
