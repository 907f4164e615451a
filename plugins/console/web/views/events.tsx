import { useEffect, useMemo, useState } from 'preact/hooks'
import { type Kind, pathOfKind } from '../api/discovery.ts'
import { type ApiObject, fieldsOf, textOf } from '../api/json.ts'
import type { World } from '../app-state.ts'
import { cellOf } from '../model/cells.ts'
import { LiveList } from '../model/live-list.ts'
import { Age, Value } from './cell.tsx'

const columnOf = (name: string) => ({ name, jsonPath: '', type: 'string', priority: 0, index: undefined })

/** What controllers have told about the object, live. */
export function Events({ object, world }: { object: ApiObject; kind: Kind; world: World }) {
  const kind = world.kinds.find(({ group, plural }) => group === '' && plural === 'events')
  if (kind === undefined) return <p class="quiet">This server does not keep events.</p>
  return <EventList object={object} kind={kind} world={world} />
}

function EventList({ object, kind, world }: { object: ApiObject; kind: Kind; world: World }) {
  const { uid, namespace } = object.metadata
  const [may, setMay] = useState<'everywhere' | 'within' | 'no'>()
  useEffect(() => {
    const ask = async () => {
      if (await world.rights.may('list', kind)) return 'everywhere'
      return (await world.rights.may('list', kind, { namespace: namespace ?? 'default' })) ? 'within' : 'no'
    }
    void ask().then(setMay)
  }, [kind, namespace])
  if (may === undefined) return <p class="quiet">Loading…</p>
  if (may === 'no')
    return (
      <div role="alert" class="alert">
        You are not permitted to list events.
      </div>
    )
  return (
    <Listed path={{ kind, namespace: may === 'within' ? (namespace ?? 'default') : undefined }} uid={uid} />
  )
}

function Listed({
  path: { kind, namespace },
  uid,
}: {
  path: { kind: Kind; namespace: string | undefined }
  uid: string
}) {
  const list = useMemo(
    () =>
      new LiveList(
        kind,
        namespace,
        new URLSearchParams({ fieldSelector: `involvedObject.uid=${uid}`, size: '200' }),
      ),
    [uid, kind, namespace],
  )
  useEffect(() => () => list.close(), [list])
  const error = list.error.value
  if (error !== undefined)
    return (
      <div role="alert" class="alert">
        {error}
      </div>
    )
  const rows = list.listed.value?.rows ?? []
  const timeOf = (event: ApiObject) =>
    textOf(cellOf(event, columnOf('Last Seen'))) || event.metadata.creationTimestamp
  const events = rows
    .filter(({ isGone }) => !isGone)
    .map(({ object }) => object)
    .sort((a, b) => (timeOf(a) < timeOf(b) ? 1 : -1))
  if (list.listed.value !== undefined && events.length === 0)
    return <p class="quiet">No events. They are kept for an hour.</p>
  return (
    <ul class="events" title={pathOfKind(kind, namespace)}>
      {events.map(event => (
        <li key={event.metadata.uid}>
          <Value value={event.type} type="string" /> <strong>{textOf(event.reason)}</strong>{' '}
          <span class="quiet">
            <Age time={timeOf(event)} /> ago
            {Number(cellOf(event, columnOf('Count'))) > 1 && `, ${cellOf(event, columnOf('Count'))} times`}
            {sourceOf(event) !== '' && `, by ${sourceOf(event)}`}
          </span>
          <div class="message">{textOf(event.message) || textOf(event.note)}</div>
        </li>
      ))}
    </ul>
  )
}

function sourceOf(event: ApiObject): string {
  return (
    textOf(event.reportingComponent) ||
    textOf(fieldsOf(event.source).component) ||
    textOf(event.reportingController)
  )
}
