import { useEffect, useRef, useState } from 'preact/hooks'
import { consoleHref } from '../api/address.ts'
import { apiVersionOf, type Kind, pathOfKind } from '../api/discovery.ts'
import { type ApiObject, objectOf } from '../api/json.ts'
import { socket } from '../api/socket.ts'
import { oncePerFrame } from '../model/frames.ts'
import type { Change } from '../model/live-object.ts'
import type { Place } from '../route.ts'
import { Diff } from './history.tsx'

/** Events that are shown; older ones make room. */
const shownEvents = 200
/** Objects that are remembered for differences. */
const remembered = 20_000

/** The events of a selection as they come. */
export function StreamView({ place }: { place: Extract<Place, { at: 'collection' }> }) {
  const { kind, namespace, query } = place
  const [isPaused, setPaused] = useState(false)
  const [shown, setShown] = useState<readonly Change[]>([])
  const [count, setCount] = useState(0)
  const [problem, setProblem] = useState('')
  const paused = useRef(false)
  paused.current = isPaused
  useEffect(() => {
    const objects = new Map<string, ApiObject>()
    let events: Change[] = []
    let total = 0
    let isInitial = true
    const draw = oncePerFrame(() => {
      setCount(total)
      if (!paused.current) setShown(events)
    })
    const selectors = new URLSearchParams()
    for (const [name, value] of query)
      if (name === 'fieldSelector' || name === 'labelSelector') selectors.append(name, value)
    let end = () => {}
    const open = () => {
      end = socket.subscribe({
        path: `${pathOfKind(kind, namespace)}?${selectors}`,
        version: undefined,
        restarted: () => {
          isInitial = true
        },
        synced: () => {
          isInitial = false
        },
        event: (type, value) => {
          const object = objectOf(value, { apiVersion: apiVersionOf(kind), kind: kind.kind })
          const before = objects.get(object.metadata.uid)
          objects.delete(object.metadata.uid)
          if (type !== 'DELETED') objects.set(object.metadata.uid, object)
          const [oldest] = objects.keys()
          if (objects.size > remembered && oldest !== undefined) objects.delete(oldest)
          if (isInitial) return
          total++
          events = [{ type, at: Date.now(), object, before }, ...events.slice(0, shownEvents - 1)]
          draw()
        },
        expired: open,
        refused: setProblem,
      })
    }
    open()
    return () => end()
  }, [query.toString(), namespace, kind])
  return (
    <section aria-label="Stream" class="stream">
      {problem !== '' && (
        <div role="alert" class="alert">
          {problem}
        </div>
      )}
      <div class="actions">
        <button type="button" aria-pressed={isPaused} onClick={() => setPaused(!isPaused)}>
          {isPaused ? 'Resume' : 'Pause'}
        </button>
        <span class="quiet">{count.toLocaleString('en')} events since you opened this stream</span>
      </div>
      <ol class="history" reversed>
        {shown.map(change => (
          <StreamEvent key={`${change.object.metadata.version} ${change.type}`} kind={kind} change={change} />
        ))}
      </ol>
      {shown.length === 0 && <p class="quiet">Waiting for changes…</p>}
    </section>
  )
}

/** The difference is made when someone opens the event. */
function StreamEvent({ kind, change: { type, at, object, before } }: { kind: Kind; change: Change }) {
  const [isOpen, setOpen] = useState(false)
  return (
    <li>
      <details onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
        <summary>
          <span class={`event ${type.toLowerCase()}`}>{type}</span> <bdi>{object.metadata.name}</bdi>{' '}
          <span class="quiet">
            {new Date(at).toLocaleTimeString()} · version {object.metadata.version}
          </span>
        </summary>
        {isOpen && (
          <>
            <a href={consoleHref(pathOfKind(kind, object.metadata.namespace, object.metadata.name))}>
              Open the object
            </a>
            {before !== undefined && type === 'MODIFIED' ? (
              <Diff before={before} after={object} />
            ) : (
              <pre class="diff">{JSON.stringify(object, null, 2)}</pre>
            )}
          </>
        )}
      </details>
    </li>
  )
}
