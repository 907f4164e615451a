import { signal } from '@preact/signals'
import { apiVersionOf, type Kind, pathOfKind } from '../api/discovery.ts'
import { get, wordsOf } from '../api/http.ts'
import { type ApiObject, fieldsOf, isNewer, listOf, objectOf, textOf } from '../api/json.ts'
import { socket } from '../api/socket.ts'
import { oncePerFrame } from './frames.ts'

export const liveListDefaults = Object.freeze({
  pageSize: 50,
  /** Milliseconds between two readings of a page whose order may have changed, and before the first. */
  readMs: [60, 1_000] as const,
  /** Milliseconds of rest after which a change is marked. */
  restMs: 1_000,
})

/** An object in a table. Replaced, never changed, so that a row is drawn again only if its object is another one. */
export interface Row {
  readonly key: string
  readonly object: ApiObject
  /** The object does not exist any more, or no longer matches. */
  readonly isGone: boolean
  /** How often it has changed after a while of rest: one that changes all the time needs no mark. */
  readonly changes: number
  readonly changedAt: number
}

export interface Listed {
  readonly rows: readonly Row[]
  readonly total: number
  readonly page: number
  readonly size: number
  readonly totalPages: number
}

/**
 * One page of a collection, live. The server gives the page and its order. A watch from the state of the page changes rows in
 * place; whenever a change may move rows, the page is read again: at most once a second, since a page costs the same in a
 * collection of any size. While the list is held, rows stay where they are, and `isStale` says that they would move.
 */
export class LiveList {
  readonly listed = signal<Listed | undefined>(undefined)
  readonly error = signal<string | undefined>(undefined)
  /** Rows would move. */
  readonly isStale = signal(false)
  readonly #path: string
  readonly #watched: string
  readonly #kind: Kind
  readonly #orderMayChange: boolean
  /** The order as it was read last, and the objects of its rows. */
  #current: Listed | undefined
  #shown: Listed | undefined
  #objects = new Map<string, Row>()
  #isHeld = false
  #end: () => void = () => {}
  #version = ''
  #timer: ReturnType<typeof setTimeout> | undefined
  #readAt = -Infinity
  #isReading = false
  #isClosed = false
  readonly #draw = oncePerFrame(() => this.#show())

  constructor(kind: Kind, namespace: string | undefined, query: URLSearchParams) {
    this.#kind = kind
    const asked = new URLSearchParams(query)
    for (const name of ['watch', 'limit', 'continue']) asked.delete(name)
    if (!asked.has('size')) asked.set('size', String(liveListDefaults.pageSize))
    this.#path = `${pathOfKind(kind, namespace)}?${asked}`
    const sorts = asked.getAll('sort')
    // Names and times of creation never change.
    this.#orderMayChange = sorts.some(sort => !/^metadata\.(name|creationTimestamp)(,|$)/.test(sort))
    const selectors = new URLSearchParams()
    for (const [name, value] of asked)
      if (name === 'fieldSelector' || name === 'labelSelector') selectors.append(name, value)
    this.#watched = `${pathOfKind(kind, namespace)}?${selectors}`
    void this.#read()
  }

  /** Rows do not move while someone points at them. */
  hold(isHeld: boolean): void {
    this.#isHeld = isHeld
    if (!isHeld) this.update()
  }

  /** Shows the present order. */
  update(): void {
    this.#shown = this.#current
    this.#draw()
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
    this.#end()
  }

  async #read(): Promise<void> {
    this.#isReading = true
    this.#readAt = performance.now()
    try {
      const list = await get(this.#path)
      if (this.#isClosed) return
      this.#take(list)
      this.error.value = undefined
      if (this.#version === '') {
        this.#version = textOf(fieldsOf(list.metadata).version)
        this.#watch()
      }
    } catch (error) {
      if (this.#isClosed) return
      this.error.value = wordsOf(error)
      // A server that is away comes back; a wrong selector stays wrong.
      if (
        error instanceof Error &&
        'code' in error &&
        (error.code === 0 || error.code === 503 || error.code === 429)
      )
        this.#timer = setTimeout(() => void this.#read(), 2_000)
    } finally {
      this.#isReading = false
    }
  }

  #take(list: Readonly<Record<string, unknown>>): void {
    const known = { apiVersion: apiVersionOf(this.#kind), kind: this.#kind.kind }
    const rows = listOf(list.items).map(item => {
      const object = objectOf(item, known)
      const key = object.metadata.uid || `${object.metadata.namespace}/${object.metadata.name}`
      const before = this.#objects.get(key)
      // The watch may be ahead of the page.
      if (before !== undefined && !isNewer(object.metadata.version, before.object.metadata.version))
        return before
      return before === undefined
        ? { key, object, isGone: false, changes: 0, changedAt: 0 }
        : changed(before, object, false)
    })
    const numberOf = (value: unknown) => (typeof value === 'number' ? value : 0)
    this.#current = {
      rows,
      total: numberOf(list.total),
      page: numberOf(list.page) || 1,
      size: numberOf(list.size),
      totalPages: numberOf(list.totalPages),
    }
    const kept = new Map(rows.map(row => [row.key, row]))
    // Rows that are still shown keep their objects.
    for (const { key } of this.#shown?.rows ?? []) {
      const row = this.#objects.get(key)
      if (row !== undefined && !kept.has(key)) kept.set(key, row)
    }
    this.#objects = kept
    if (!this.#isHeld || this.#shown === undefined) this.#shown = this.#current
    this.#draw()
  }

  #watch(): void {
    this.#end()
    const known = { apiVersion: apiVersionOf(this.#kind), kind: this.#kind.kind }
    this.#end = socket.subscribe({
      path: this.#watched,
      version: this.#version,
      event: (type, value) => {
        const { metadata } = fieldsOf(value)
        const { uid, namespace, name } = fieldsOf(metadata)
        const key = textOf(uid) || `${namespace}/${name}`
        const before = this.#objects.get(key)
        if (before !== undefined) {
          const object = objectOf(value, known)
          if (type === 'DELETED' || isNewer(object.metadata.version, before.object.metadata.version)) {
            this.#objects.set(key, changed(before, object, type === 'DELETED'))
            this.#draw()
          }
        }
        if (type !== 'MODIFIED' || this.#orderMayChange) this.#readSoon()
      },
      expired: () => {
        this.#version = ''
        this.#readSoon()
      },
      refused: message => {
        this.error.value = message || 'Changes cannot be watched.'
      },
    })
  }

  #readSoon(): void {
    if (this.#timer !== undefined || this.#isClosed) return
    const [soon, between] = liveListDefaults.readMs
    const wait = Math.max(soon, this.#readAt + between - performance.now())
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      if (this.#isReading) this.#readSoon()
      else void this.#read()
    }, wait)
  }

  #show(): void {
    const shown = this.#shown
    if (shown === undefined || this.#isClosed) return
    const rows = shown.rows.map(row => this.#objects.get(row.key) ?? row)
    this.isStale.value = this.#current !== undefined && !isSameOrder(shown.rows, this.#current.rows)
    const { total, totalPages } = this.#current ?? shown
    const before = this.listed.value
    const next = { ...shown, rows, total, totalPages }
    if (before !== undefined && isSame(before, next)) return
    this.listed.value = next
  }
}

function changed({ key, changes, changedAt }: Row, object: ApiObject, isGone: boolean): Row {
  const now = performance.now()
  const rested = now - changedAt > liveListDefaults.restMs
  return { key, object, isGone, changes: rested ? changes + 1 : changes, changedAt: now }
}

function isSame(a: Listed, b: Listed): boolean {
  return (
    a.total === b.total &&
    a.page === b.page &&
    a.totalPages === b.totalPages &&
    a.rows.length === b.rows.length &&
    a.rows.every((row, at) => row === b.rows[at])
  )
}

function isSameOrder(a: readonly Row[], b: readonly Row[]): boolean {
  return a.length === b.length && a.every(({ key }, at) => key === b[at]?.key)
}
