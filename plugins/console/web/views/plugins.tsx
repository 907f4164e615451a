import { consoleHref } from '../api/address.ts'
import { pathOfKind } from '../api/discovery.ts'
import { request, wordsOf } from '../api/http.ts'
import { type ApiObject, fieldsOf, listOf, textOf } from '../api/json.ts'
import { tell, type World } from '../app-state.ts'
import { Value } from './cell.tsx'
import { useAsync } from './use-async.ts'
import { useList } from './use-list.ts'

/** The plugins with their phases, problems and migrations. */
export function Plugins({ world }: { world: World }) {
  const { kind, objects } = useList(
    world,
    (group, plural) => plural === 'plugins' && group.startsWith('plugins.'),
    {
      sort: 'metadata.name,asc',
    },
  )
  const mayPatch =
    useAsync(async () => kind !== undefined && world.rights.may('patch', kind), [kind]) ?? false
  if (kind === undefined)
    return (
      <section>
        <h2>Plugins</h2>
        <p class="quiet">You may not list plugins.</p>
      </section>
    )
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
