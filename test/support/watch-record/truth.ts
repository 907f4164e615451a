import { isDeepStrictEqual } from 'node:util'
import type { ApiObject, ChangeType, Revision } from '@setpoint/controller-runtime/api'
import type { RunLog, WriteRecord } from './run-log.ts'
import { isChange, type Session, sessionsOf } from './stream.ts'

/** One change of one object, as it happened. */
export interface TrueChange {
  readonly version: Revision
  readonly name: string
  /** Undefined if the object did not exist before. */
  readonly before: ApiObject | undefined
  /** Undefined if the object was deleted. */
  readonly after: ApiObject | undefined
}

/** The result of a change; `after` is undefined for a deletion. */
interface Effect {
  readonly name: string
  readonly after: ApiObject | undefined
}

interface Span {
  readonly from: Revision
  readonly to: Revision
  readonly state: ReadonlyMap<string, ApiObject>
}

/**
 * The true history, as far as it can be known: acknowledged writes, and what a witness saw between its first and last
 * version. If they differ, the response to the writer counts, then the first witness.
 */
export class Truth {
  /** All known changes, in ascending order of versions. */
  readonly changes: readonly TrueChange[]
  /** Acknowledged writes in the range of a witness that no watcher has seen. */
  readonly lost: readonly WriteRecord[]
  readonly #byVersion = new Map<Revision, TrueChange>()
  readonly #spans: readonly Span[]
  /** By name, ascending: the object from a version on. */
  readonly #versions = new Map<
    string,
    { readonly from: Revision; readonly object: ApiObject | undefined }[]
  >()

  /** @throws Error if no witness has a complete initial state, since nothing can be checked then. */
  constructor(log: RunLog) {
    const witnesses = log.watchers.filter(({ witness }) => witness)
    const sessions = witnesses.flatMap(sessionsOf)
    this.#spans = sessions.flatMap(spanOf).sort((a, b) => a.from - b.from)
    if (this.#spans.length === 0) throw new Error('no witness of this run has a complete initial state')
    const seen = seenVersions(log)
    const effects = new Map<Revision, Effect>()
    const lost: WriteRecord[] = []
    for (const write of log.writes) {
      const { outcome } = write
      if (outcome.kind !== 'acknowledged' || !this.covers(outcome.version)) continue
      if (!seen.has(outcome.version)) lost.push(write)
      else if (!effects.has(outcome.version)) {
        const effect = effectOf(write)
        if (effect !== undefined) effects.set(outcome.version, effect)
      }
    }
    this.lost = lost
    for (const { live } of sessions.flat()) {
      for (const event of live) {
        if (!isChange(event) || effects.has(event.version) || !this.covers(event.version)) continue
        const { type, name, object } = event
        effects.set(event.version, { name, after: type === 'DELETED' ? undefined : object })
      }
    }
    this.changes = this.#replay([...effects].sort(([a], [b]) => a - b))
    for (const change of this.changes) this.#byVersion.set(change.version, change)
  }

  /** Returns true if a witness must have seen a change at this version. */
  covers(version: Revision): boolean {
    return this.#spans.some(({ from, to }) => version > from && version <= to)
  }

  /** Returns true if the complete state at this version is known. */
  knowsState(version: Revision): boolean {
    return this.#spans.some(({ from, to }) => version >= from && version <= to)
  }

  at(version: Revision): TrueChange | undefined {
    return this.#byVersion.get(version)
  }

  /** Returns the changes after `from` up to and including `to`. */
  between(from: Revision, to: Revision): readonly TrueChange[] {
    return this.changes.slice(firstAfter(this.changes, from), firstAfter(this.changes, to))
  }

  /** Returns the objects at a version whose state is known. */
  stateAt(version: Revision): Map<string, ApiObject> {
    const state = new Map<string, ApiObject>()
    for (const [name, states] of this.#versions) {
      const object = states.findLast(({ from }) => from <= version)?.object
      if (object !== undefined) state.set(name, object)
    }
    return state
  }

  #replay(effects: readonly (readonly [Revision, Effect])[]): TrueChange[] {
    const changes: TrueChange[] = []
    const state = new Map<string, ApiObject>()
    const become = (name: string, from: Revision, object: ApiObject | undefined) => {
      if (object === undefined) state.delete(name)
      else state.set(name, object)
      const states = this.#versions.get(name)
      if (states === undefined) this.#versions.set(name, [{ from, object }])
      else states.push({ from, object })
    }
    // After a gap, the next complete state shows what has changed.
    const starts = this.#spans.filter(({ from }) => !this.covers(from))
    const beginAt = (span: Span) => {
      for (const name of [...state.keys()]) if (!span.state.has(name)) become(name, span.from, undefined)
      for (const [name, object] of span.state) become(name, span.from, object)
    }
    for (const [version, { name, after }] of effects) {
      while (starts[0] !== undefined && starts[0].from < version) {
        const [span] = starts.splice(0, 1)
        if (span !== undefined) beginAt(span)
      }
      changes.push({ version, name, before: state.get(name), after })
      become(name, version, after)
    }
    for (const span of starts) beginAt(span)
    return changes
  }
}

/** Returns the event that a watcher must receive for a change, or undefined if it does not match. */
export function eventOf(
  { version, before, after }: TrueChange,
  selects: (object: ApiObject) => boolean,
): { readonly type: ChangeType; readonly object: ApiObject } | undefined {
  const matched = before !== undefined && selects(before)
  if (after !== undefined && selects(after)) return { type: matched ? 'MODIFIED' : 'ADDED', object: after }
  return matched ? { type: 'DELETED', object: withVersion(before, version) } : undefined
}

export function same(left: unknown, right: unknown): boolean {
  return left === right || isDeepStrictEqual(left, right)
}

function withVersion(object: ApiObject, version: Revision): ApiObject {
  const text = String(version)
  return { ...object, metadata: { ...object.metadata, version: text, resourceVersion: text } }
}

/**
 * An update that removes the last finalizer of a deleting object deletes it; a delete with finalizers left does not.
 */
function effectOf({ verb, name, outcome }: WriteRecord): Effect | undefined {
  const object = outcome.kind === 'acknowledged' ? outcome.object : undefined
  const { deletionTimestamp, finalizers = [] } = object?.metadata ?? {}
  const isDeleting = deletionTimestamp !== undefined
  if (verb === 'delete') return { name, after: isDeleting && finalizers.length > 0 ? object : undefined }
  if (object === undefined) return undefined
  return { name, after: isDeleting && finalizers.length === 0 ? undefined : object }
}

function spanOf(session: Session): Span[] {
  const [first] = session
  const from = first?.initialVersion
  if (first === undefined || from === undefined) return []
  const to = session.reduce((max, { knows }) => (knows !== undefined && knows > max ? knows : max), from)
  return [{ from, to, state: new Map(first.initial.map(({ name, object }) => [name, object])) }]
}

function seenVersions({ watchers }: RunLog): Set<Revision> {
  const seen = new Set<Revision>()
  for (const { connections } of watchers) {
    for (const { events } of connections) {
      for (const event of events) if (isChange(event)) seen.add(event.version)
    }
  }
  return seen
}

/** Returns the index of the first change after a version. */
function firstAfter(changes: readonly TrueChange[], version: Revision): number {
  let low = 0
  let high = changes.length
  while (low < high) {
    const middle = (low + high) >> 1
    const change = changes[middle]
    if (change !== undefined && change.version <= version) low = middle + 1
    else high = middle
  }
  return low
}
