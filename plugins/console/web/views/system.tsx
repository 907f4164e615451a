import { useEffect, useMemo, useState } from 'preact/hooks'
import { get, getText, request, wordsOf } from '../api/http.ts'
import { type Fields, fieldsOf, textOf } from '../api/json.ts'
import type { World } from '../app-state.ts'
import { factsOf, type Server, Servers } from '../model/servers.ts'
import { Age } from './cell.tsx'
import { Charts } from './charts.tsx'
import { Plugins } from './plugins.tsx'
import { useAsync } from './use-async.ts'
import { useList } from './use-list.ts'

/** How the servers are: their plugins, the leader, health, the store, and the metrics that matter. */
export function System({ world }: { world: World }) {
  const version = useAsync(() => get('/version'), [])
  const { servers, problem } = useServers()
  const [latest] = servers
  return (
    <div class="system">
      <h1>System</h1>
      <p class="quiet">{version === undefined ? '' : versionText(version)}</p>
      <Plugins world={world} />
      <Leaders world={world} />
      <Health />
      {problem === '' ? (
        <ServerList servers={servers} />
      ) : (
        <section>
          <h2>Servers and store</h2>
          <p class="quiet">They are not shown, because the metrics cannot be read. {problem}</p>
        </section>
      )}
      {latest !== undefined && <Charts key={latest.startedAt} readings={latest.readings} />}
    </div>
  )
}

/** Reads `v1.34.0+setpoint.0.1.0`: the version of Kubernetes' API, and that of the program. */
function versionText({ gitVersion, platform }: Fields): string {
  const [, kubernetes = '', own = ''] = /^v(\d+\.\d+).*\+setpoint\.(.+)$/.exec(textOf(gitVersion)) ?? []
  return `Setpoint ${own}, with the API of Kubernetes ${kubernetes}, on ${textOf(platform)}`
}

function useServers(): { readonly servers: readonly Server[]; readonly problem: string } {
  const servers = useMemo(() => new Servers(), [])
  const [problem, setProblem] = useState('')
  const [, redraw] = useState(0)
  useRegularly(async () => {
    try {
      const { body } = await request('/metrics', { accept: 'text/plain' })
      servers.add(Date.now() / 1000, String(body))
      setProblem('')
      redraw(count => count + 1)
    } catch (error) {
      setProblem(wordsOf(error))
    }
  })
  return { servers: servers.all, problem }
}

/** Those that have responded to this page. */
function ServerList({ servers }: { servers: readonly Server[] }) {
  return (
    <section aria-labelledby="servers">
      <h2 id="servers">Servers and store</h2>
      {servers.map(({ startedAt, readings }) => (
        <dl class="facts" key={startedAt}>
          <dt>Server</dt>
          <dd>
            started <Age time={new Date(startedAt * 1_000).toISOString()} /> ago
          </dd>
          {factsOf(readings.latest).map(({ name, value, isBad = false }) => [
            <dt key={`name ${name}`}>{name}</dt>,
            <dd key={`value ${name}`} class={isBad ? 'tone bad' : ''}>
              {value}
            </dd>,
          ])}
        </dl>
      ))}
      <p class="quiet">
        Servers do not know of each other. Here are those that have responded to this page: one, unless a load
        balancer is in front of several.
      </p>
    </section>
  )
}

function Leaders({ world }: { world: World }) {
  const { kind, objects } = useList(
    world,
    (group, plural) => group === 'coordination.k8s.io' && plural === 'leases',
    {},
  )
  return (
    <section>
      <h2>Leaders</h2>
      {objects.length === 0 && (
        <p class="quiet">
          {kind === undefined
            ? 'You may not list leases, which name the leaders.'
            : 'There is no lease: controllers run in the only server, which needs no leader, or nowhere.'}
        </p>
      )}
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

/** Plugins that start or have failed leave a ready server ready, so their lines begin like good ones. */
function toneOfCheck(line: string): 'good' | 'busy' | 'bad' {
  if (/^\[-\]| failed/.test(line)) return 'bad'
  return line.endsWith(' ok') ? 'good' : 'busy'
}

function Health() {
  const [lines, setLines] = useState<readonly string[]>([])
  const [problem, setProblem] = useState('')
  useRegularly(async () => {
    try {
      // A server that is not ready says what it waits for, such as indexes and how far they are.
      const { isOk, text } = await getText('/readyz?verbose')
      setLines(text.trim().split('\n'))
      setProblem(isOk ? '' : 'The server is not ready.')
    } catch (error) {
      setProblem(wordsOf(error))
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
            <li key={line.split(' ')[0]} class={`tone ${toneOfCheck(line)}`}>
              {line.slice(3)}
            </li>
          ))}
      </ul>
    </section>
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
