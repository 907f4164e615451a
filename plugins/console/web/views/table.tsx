import type { ComponentChildren } from 'preact'
import { memo } from 'preact/compat'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { consoleHref } from '../api/address.ts'
import { type Kind, pathOfKind } from '../api/discovery.ts'
import type { Column, Index } from '../api/schema.ts'
import { cellOf } from '../model/cells.ts'
import type { LiveList, Row } from '../model/live-list.ts'
import type { Place } from '../route.ts'
import { Value } from './cell.tsx'
import { type CellRenderer, PluginCell, useExtension } from './extension.tsx'

/** Rows that are in the page at once; of more only those in sight are. */
const plainRows = 200
/** Rows that are kept above and below those in sight. */
const spareRows = 20

interface ObjectTableProps {
  readonly place: Extract<Place, { at: 'collection' }>
  readonly list: LiveList
  readonly columns: readonly Column[]
  readonly indexes: readonly Index[]
  readonly module: string | undefined
  readonly sort: (sort: string) => void
}

/** The objects of a page. While someone points at a row, or a row has the focus, rows stay where they are. */
export function ObjectTable({ place, list, columns, indexes, module, sort }: ObjectTableProps) {
  const { kind, namespace, query } = place
  const body = useRef<HTMLTableSectionElement>(null)
  const area = useRef<HTMLDivElement>(null)
  const scrolled = useRef<HTMLElement>(null)
  const release = useHold(area, body, list)
  const extension = useExtension(module)
  const [isWide, setWide] = useState(false)
  const shown = useMemo(() => {
    // Every row leads to its object, also where Kubernetes has the name among the further columns, as for events.
    const name = columns.find(each => each.name === 'Name')
    if (name === undefined) return []
    const others = columns.filter(each => each !== name && (isWide || each.priority === 0))
    const withNamespace = kind.isNamespaced && namespace === undefined
    const ofNamespace: Column = {
      name: 'Namespace',
      jsonPath: '.metadata.namespace',
      type: 'string',
      priority: 0,
      index: 'metadata.namespace',
    }
    return [name, ...(withNamespace ? [ofNamespace] : []), ...others]
  }, [columns, isWide, kind, namespace])
  const listed = list.listed.value
  const rows = listed?.rows ?? []
  const { from, to, before, after } = useWindow(body, rows.length)
  const isFiltered = query.has('fieldSelector') || query.has('labelSelector')
  const hasMore = columns.some(({ priority }) => priority > 0)
  const updateOrder = () => {
    // The button goes.
    scrolled.current?.focus({ preventScroll: true })
    release()
  }
  return (
    <div ref={area}>
      <div class="table-tools">
        {list.isStale.value && (
          <button type="button" onClick={updateOrder}>
            Update order
          </button>
        )}
        {hasMore && (
          <label class="check">
            <input type="checkbox" checked={isWide} onChange={() => setWide(!isWide)} /> More columns
          </label>
        )}
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, so the keyboard must reach it */}
      <section class="table" ref={scrolled} tabIndex={0} aria-label={`Table of ${kind.plural}`}>
        <table
          aria-rowcount={rows.length > plainRows ? rows.length + 1 : undefined}
          aria-busy={listed === undefined}
        >
          <thead>
            <tr>
              {shown.map(column => (
                <HeaderCell key={column.name} column={column} query={query} indexes={indexes} sort={sort} />
              ))}
            </tr>
          </thead>
          <tbody ref={body}>
            {before > 0 && <Space height={before} />}
            {rows.slice(from, to).map((row, at) => (
              <ObjectRow
                key={row.key}
                row={row}
                kind={kind}
                columns={shown}
                cells={extension?.cells}
                index={rows.length > plainRows ? from + at + 2 : undefined}
              />
            ))}
            {after > 0 && <Space height={after} />}
          </tbody>
        </table>
        {listed !== undefined && rows.length === 0 && (
          <p class="quiet empty">
            No objects{listed.total > 0 ? ' on this page' : isFiltered ? ' match' : ' yet'}.
          </p>
        )}
      </section>
    </div>
  )
}

function Space({ height }: { height: number }) {
  return (
    // biome-ignore lint/a11y/noAriaHiddenOnFocusable: it has nothing that takes the focus
    <tr aria-hidden="true">
      <td style={{ height: `${height}px`, padding: 0 }} />
    </tr>
  )
}

/** The effective order if the address names none. */
const defaultSort = 'metadata.creationTimestamp,desc'

function HeaderCell({
  column,
  query,
  indexes,
  sort,
}: {
  column: Column
  query: URLSearchParams
  indexes: readonly Index[]
  sort: (sort: string) => void
}) {
  const { name, index } = column
  if (index === undefined) return <th scope="col">{name}</th>
  const own = indexes.find(each => each.name === index)?.order === 'DESC' ? 'desc' : 'asc'
  const [field = '', given] = (query.get('sort') ?? defaultSort).split(',')
  const direction =
    field !== index ? undefined : given === 'desc' || (given === undefined && own === 'desc') ? 'desc' : 'asc'
  const next = direction === undefined ? own : direction === 'asc' ? 'desc' : 'asc'
  return (
    <th
      scope="col"
      aria-sort={direction === undefined ? 'none' : direction === 'asc' ? 'ascending' : 'descending'}
    >
      <button type="button" class={`sort ${direction ?? ''}`} onClick={() => sort(`${index},${next}`)}>
        {name}
      </button>
    </th>
  )
}

interface ObjectRowProps {
  readonly row: Row
  readonly kind: Kind
  readonly columns: readonly Column[]
  readonly cells: Readonly<Record<string, CellRenderer>> | undefined
  readonly index: number | undefined
}

/** Drawn again only when its object is another one. */
const ObjectRow = memo(function ObjectRow({ row, kind, columns, cells, index }: ObjectRowProps) {
  const { object, isGone, changes } = row
  const { name, namespace, deletionTimestamp } = object.metadata
  const state = isGone ? 'gone' : deletionTimestamp === undefined ? '' : 'ending'
  const content = (column: Column, at: number): ComponentChildren => {
    if (at === 0)
      return (
        <>
          <a href={consoleHref(pathOfKind(kind, namespace, name))}>
            <bdi>{name}</bdi>
          </a>
          {isGone && <span class="badge">deleted</span>}
          {state === 'ending' && <span class="badge">deleting</span>}
        </>
      )
    const renderer = cells?.[column.name]
    if (renderer !== undefined) return <PluginCell object={object} render={renderer} />
    return <Value value={cellOf(object, column)} type={column.type} />
  }
  return (
    <tr
      class={`${state} ${changes === 0 ? '' : changes % 2 === 0 ? 'changed-a' : 'changed-b'}`}
      {...(index !== undefined && { 'aria-rowindex': index })}
    >
      {columns.map((column, at) =>
        at === 0 ? (
          <th key={column.name} scope="row">
            {content(column, at)}
          </th>
        ) : (
          <td key={column.name} class={column.type === 'integer' || column.type === 'number' ? 'number' : ''}>
            {content(column, at)}
          </td>
        ),
      )}
    </tr>
  )
})

/**
 * Holds the list once the pointer or the focus is in its rows, until it leaves the area around them: the way to the button that
 * updates the order is in it. Returns a function that releases the list at once.
 */
function useHold(
  area: { readonly current: HTMLElement | null },
  body: { readonly current: HTMLElement | null },
  list: LiveList,
): () => void {
  const release = useRef(() => {})
  useEffect(() => {
    const around = area.current
    const rows = body.current
    if (around === null || rows === null) return
    let isPointed = false
    let isFocused = false
    const set = () => list.hold(isPointed || isFocused)
    release.current = () => {
      isPointed = false
      isFocused = false
      set()
    }
    const listening = new AbortController()
    const { signal } = listening
    const ofMouse = ({ pointerType }: PointerEvent) => {
      if (pointerType === 'mouse') isPointed = true
      set()
    }
    const pointerLeft = () => {
      isPointed = false
      set()
    }
    const focused = () => {
      isFocused = true
      set()
    }
    const focusMoved = ({ relatedTarget }: FocusEvent) => {
      isFocused &&= relatedTarget instanceof Node && around.contains(relatedTarget)
      set()
    }
    rows.addEventListener('pointerover', ofMouse, { signal })
    rows.addEventListener('focusin', focused, { signal })
    around.addEventListener('pointerleave', pointerLeft, { signal })
    around.addEventListener('focusout', focusMoved, { signal })
    return () => listening.abort()
  }, [list])
  return () => release.current()
}

/** Returns which of many rows are in sight, and the heights of those above and below. */
function useWindow(body: { readonly current: HTMLElement | null }, count: number) {
  const [top, setTop] = useState(0)
  const height = useRef(32)
  const isLong = count > plainRows
  useEffect(() => {
    if (!isLong) return
    const measure = () => {
      const row = body.current?.querySelector('tr:not([aria-hidden])')
      if (row instanceof HTMLElement && row.offsetHeight > 0) height.current = row.offsetHeight
      const above = -(body.current?.getBoundingClientRect().top ?? 0)
      setTop(Math.max(0, Math.floor(above / height.current / spareRows) * spareRows))
    }
    measure()
    addEventListener('scroll', measure, { passive: true, capture: true })
    addEventListener('resize', measure)
    return () => {
      removeEventListener('scroll', measure, { capture: true })
      removeEventListener('resize', measure)
    }
  }, [isLong])
  if (!isLong) return { from: 0, to: count, before: 0, after: 0 }
  const visible = Math.ceil(innerHeight / height.current)
  const from = Math.max(0, Math.min(top - spareRows, count - visible))
  const to = Math.min(count, top + visible + 2 * spareRows)
  return { from, to, before: from * height.current, after: (count - to) * height.current }
}
