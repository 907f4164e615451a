import type { ComponentChildren } from 'preact'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { consoleHref } from '../api/address.ts'
import { type Kind, pathOfKind } from '../api/discovery.ts'
import type { ApiObject } from '../api/json.ts'
import { schemaOf } from '../api/schema.ts'
import type { World } from '../app-state.ts'
import { LiveObject } from '../model/live-object.ts'
import { go, type Place } from '../route.ts'
import { CopyAs } from './copy-as.tsx'
import { DeleteDialog } from './delete.tsx'
import { Events } from './events.tsx'
import { PluginTabPanel, useExtension } from './extension.tsx'
import { History } from './history.tsx'
import { Overview } from './overview.tsx'
import { Tabs } from './tabs.tsx'
import { useAsync } from './use-async.ts'
import { YamlTab } from './yaml-tab.tsx'

type ObjectPlace = Extract<Place, { at: 'object' }>

/** One object: what it is, its text, what happened to it. */
export function ObjectPage({ place, world }: { place: ObjectPlace; world: World }) {
  const { kind, namespace, name, tab } = place
  const live = useMemo(() => new LiveObject(kind, namespace, name), [])
  useEffect(() => () => live.close(), [live])
  const [isDeleting, setDeleting] = useState(false)
  const schema = useAsync(() => schemaOf(kind), [kind])
  const extension = useExtension(schema?.module)
  const where = { name, ...(namespace !== undefined && { namespace }) }
  const mayUpdate = useAsync(() => world.rights.may('update', kind, where), []) ?? false
  const mayDelete = useAsync(() => world.rights.may('delete', kind, where), []) ?? false
  const state = live.state.value
  const object = 'object' in state ? state.object : undefined
  const path = pathOfKind(kind, namespace, name)
  const open = (id: string) => go(`${path}${id === 'overview' ? '' : `#${id}`}`, { replaces: true })
  const tabs = [
    { id: 'overview', title: 'Overview' },
    { id: 'yaml', title: 'YAML' },
    { id: 'events', title: 'Events' },
    { id: 'history', title: 'History' },
    ...(extension?.tabs ?? []).map((each, at) => ({ id: `plugin-${at}`, title: each.name })),
  ]
  // The form is a way to edit what the YAML has.
  const wanted = tab === 'form' ? 'yaml' : tab
  const current = tabs.some(({ id }) => id === wanted) ? wanted : 'overview'
  // What is typed there stays while another tab is looked at.
  const hasYaml = useRef(false)
  hasYaml.current ||= current === 'yaml'
  const ofPlugin = extension?.tabs?.[Number(current.replace('plugin-', ''))]
  return (
    <div class="object">
      <p class="trail">
        <a href={consoleHref(pathOfKind(kind, namespace))}>{kind.kind}</a>
        {namespace !== undefined && <span class="quiet"> in {namespace}</span>}
      </p>
      <div class="title">
        <h1>
          <bdi>{name}</bdi>
        </h1>
        <div class="title-end">
          <CopyAs place={place} />
          {mayUpdate && state.is === 'there' && (
            <button type="button" onClick={() => open('form')}>
              Edit
            </button>
          )}
          {mayDelete && state.is === 'there' && (
            <button type="button" class="danger" onClick={() => setDeleting(true)}>
              Delete
            </button>
          )}
        </div>
      </div>
      {state.is === 'gone' && (
        <div role="alert" class="alert">
          {kind.kind} {name} has been deleted. This is how it was last.
        </div>
      )}
      {state.is === 'lost' && (
        <div role="alert" class="alert">
          {kind.kind} {name} cannot be followed any more. This is how it was last. {state.why}
        </div>
      )}
      {state.is === 'missing' && (
        <div role="alert" class="alert">
          {kind.kind} {name} cannot be shown. {state.why}
        </div>
      )}
      {state.is === 'there' && <Waiting object={state.object} />}
      {state.is === 'loading' && <p class="quiet">Loading…</p>}
      {object !== undefined && (
        <>
          <Tabs tabs={tabs} current={current} choose={open} />
          {hasYaml.current && (
            <Panel id="yaml" isHidden={current !== 'yaml'}>
              <YamlTab
                live={live}
                kind={kind}
                path={path}
                schema={schema}
                mayUpdate={mayUpdate && state.is === 'there'}
                way={tab === 'form' ? 'form' : 'yaml'}
                setWay={open}
              />
            </Panel>
          )}
          {current !== 'yaml' && (
            <Panel id={current}>
              {current === 'overview' && (
                <Overview object={object} kind={kind} world={world} isGone={state.is === 'gone'} />
              )}
              {current === 'events' && <Events object={object} kind={kind} world={world} />}
              {current === 'history' && <History live={live} kind={kind} />}
              {current.startsWith('plugin-') && ofPlugin !== undefined && (
                <PluginTabPanel tab={ofPlugin} live={live} />
              )}
            </Panel>
          )}
        </>
      )}
      {isDeleting && object !== undefined && (
        <DeleteDialog
          object={object}
          kind={kind}
          path={path}
          world={world}
          close={() => setDeleting(false)}
        />
      )}
    </div>
  )
}

function Panel({
  id,
  isHidden = false,
  children,
}: {
  id: string
  isHidden?: boolean
  children: ComponentChildren
}) {
  return (
    <div role="tabpanel" id={`panel-${id}`} aria-labelledby={`tab-${id}`} class="panel" hidden={isHidden}>
      {children}
    </div>
  )
}

/** What a deletion waits for. */
function Waiting({ object }: { object: ApiObject }) {
  const { deletionTimestamp, finalizers } = object.metadata
  if (deletionTimestamp === undefined) return null
  return (
    <div role="status" class="waiting">
      Being deleted.
      {object.kind === 'Namespace' && ' It waits for everything in it to go.'}
      {finalizers.length > 0 && ` It waits for the ${finalizers.length === 1 ? 'finalizer' : 'finalizers'} `}
      {finalizers.map((each, at) => (
        <span key={each}>
          {at > 0 && ', '}
          <code>{each}</code>
        </span>
      ))}
      {finalizers.length > 0 && '.'}
    </div>
  )
}

export type { Kind }
