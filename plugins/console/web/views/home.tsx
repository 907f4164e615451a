import { consoleHref } from '../api/address.ts'
import { pathOfListed, type World } from '../app-state.ts'
import { NamedNamespace } from './namespace.tsx'

/** What there is to look at. */
export function Home({ world }: { world: World }) {
  const own = world.listed.filter(
    ({ kind: { group } }) => group !== '' && !/(^|\.)(k8s\.io|setpoint\.dev)$/.test(group),
  )
  return (
    <>
      <h1>Setpoint</h1>
      <p class="lead">
        Everything here is live: the server sends each change as it happens. Press <kbd>Ctrl</kbd>{' '}
        <kbd>K</kbd> to go to a kind, an object or an action.
      </p>
      {world.listed.length === 0 ? (
        <div role="alert" class="alert">
          You are not permitted to list any kind. Ask an administrator for a role.
        </div>
      ) : (
        <ul class="cards">
          {(own.length > 0 ? own : world.listed.slice(0, 12)).map(listed => (
            <li key={pathOfListed(listed)}>
              <a href={consoleHref(pathOfListed(listed))}>{listed.kind.kind}</a>
              <span class="quiet">{listed.kind.group === '' ? 'core' : listed.kind.group}</span>
            </li>
          ))}
        </ul>
      )}
      {world.namespaces === undefined && (
        <p>
          Your roles may be in a namespace. Its kinds appear when you name it: <NamedNamespace />
        </p>
      )}
      <p>
        <a href={consoleHref('/system')}>Plugins, store and metrics</a> ·{' '}
        <a href={consoleHref('/reference')}>Reference of the API</a>
      </p>
    </>
  )
}
