import { useEffect, useLayoutEffect, useMemo, useState } from 'preact/hooks'
import { pathOfKind } from '../api/discovery.ts'
import { wordsOf } from '../api/http.ts'
import { schemaOf } from '../api/schema.ts'
import type { World } from '../app-state.ts'
import { filterText, withFilter } from '../model/filter.ts'
import { LiveList } from '../model/live-list.ts'
import { collectionPath, go, type Place } from '../route.ts'
import { CopyAs } from './copy-as.tsx'
import { CreateDialog } from './create.tsx'
import { NamespaceChoice } from './namespace.tsx'
import { Pages } from './pages.tsx'
import { StreamView } from './stream.tsx'
import { ObjectTable } from './table.tsx'
import { useAsync } from './use-async.ts'

type CollectionPlace = Extract<Place, { at: 'collection' }>

/** A kind's objects: a live table, or the stream of its changes. */
export function Collection({ place, world }: { place: CollectionPlace; world: World }) {
  const { kind, namespace, query } = place
  const [schemaError, setSchemaError] = useState('')
  const [isCreating, setCreating] = useState(false)
  const schema = useAsync(
    () => schemaOf(kind),
    [kind],
    error => setSchemaError(wordsOf(error)),
  )
  const where = { ...(namespace !== undefined && { namespace }) }
  const mayCreate = useAsync(() => world.rights.may('create', kind, where), [kind, namespace]) ?? false
  const isStream = query.get('watch') === 'true'
  const path = collectionPath(place, query)
  const list = useMemo(() => (isStream ? undefined : new LiveList(kind, namespace, query)), [path])
  useEffect(() => () => list?.close(), [list])
  const error = list?.error.value ?? (schemaError === '' ? undefined : schemaError)
  const change = (edit: (next: URLSearchParams) => void) => {
    const next = new URLSearchParams(query)
    edit(next)
    go(collectionPath(place, next))
  }
  return (
    <div class="collection">
      <div class="title">
        <h1>{kind.plural}</h1>
        <span class="quiet">{kind.group === '' ? kind.version : `${kind.group}/${kind.version}`}</span>
        <div class="title-end">
          {kind.isNamespaced && <NamespaceChoice place={place} world={world} />}
          <button
            type="button"
            aria-pressed={isStream}
            onClick={() =>
              change(next => {
                if (isStream) next.delete('watch')
                else next.set('watch', 'true')
              })
            }
          >
            Stream
          </button>
          <CopyAs place={place} />
          {mayCreate && (
            <button type="button" class="main" onClick={() => setCreating(true)}>
              Create
            </button>
          )}
        </div>
      </div>
      <Filter
        query={query}
        apply={next => go(collectionPath(place, next))}
        names={schema?.indexes.map(({ name }) => name) ?? []}
      />
      {error !== undefined && (
        <div role="alert" class="alert">
          {error}
        </div>
      )}
      {isStream || list === undefined ? (
        <StreamView place={place} />
      ) : (
        <>
          <ObjectTable
            place={place}
            list={list}
            columns={schema?.columns ?? []}
            module={schema?.module}
            indexes={schema?.indexes ?? []}
            sort={sort =>
              change(next => {
                next.delete('page')
                next.set('sort', sort)
              })
            }
          />
          <Pages
            list={list}
            turn={page => change(next => (page === 1 ? next.delete('page') : next.set('page', String(page))))}
          />
        </>
      )}
      {isCreating && schema !== undefined && (
        <CreateDialog kind={kind} namespace={namespace} schema={schema} close={() => setCreating(false)} />
      )}
    </div>
  )
}

/** People look for objects in a state more often than for those with a content. */
function exampleOf(names: readonly string[]): string {
  const within = (part: string) => names.find(name => name.startsWith(part))
  return within('status.') ?? within('spec.') ?? 'metadata.name'
}

/** The selectors as text. */
function Filter({
  query,
  apply,
  names,
}: {
  query: URLSearchParams
  apply: (query: URLSearchParams) => void
  names: readonly string[]
}) {
  const present = filterText(query)
  const [text, setText] = useState(present)
  // Not a plain effect, which runs after the next paint and would undo what was typed meanwhile.
  useLayoutEffect(() => setText(present), [present])
  const use = (given: string) => {
    if (given.trim() !== present) apply(withFilter(query, given))
  }
  return (
    <form
      class="filter"
      onSubmit={event => {
        event.preventDefault()
        use(text)
      }}
    >
      <input
        type="text"
        aria-label="Filter"
        placeholder={`Filter, for example ${exampleOf(names)}=…`}
        title={`Fields: ${names.join(', ')}. Labels: labelSelector=key=value`}
        value={text}
        spellcheck={false}
        autocomplete="off"
        autocapitalize="off"
        onInput={({ currentTarget }) => setText(currentTarget.value)}
        onChange={({ currentTarget }) => use(currentTarget.value)}
      />
      {present !== '' && (
        <button type="button" onClick={() => use('')}>
          Clear
        </button>
      )}
    </form>
  )
}

/** Returns the path of an object in the same namespace view. */
export function objectPath(
  place: Pick<CollectionPlace, 'kind'>,
  namespace: string | undefined,
  name: string,
): string {
  return pathOfKind(place.kind, namespace, name)
}
