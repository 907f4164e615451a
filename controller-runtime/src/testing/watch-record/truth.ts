import { isDeepStrictEqual } from 'node:util'
import type { ApiObject } from '../../api/object.ts'
import type { Revision } from '../../api/version.ts'
import type { ChangeType } from '../../api/watch-event.ts'
import type { RunLog, WriteRecord } from './run-log.ts'
import { isChange, type Session, sessionsOf } from './stream.ts'

/** One change of one object, as it happened. */
export interface TrueChange {
  readonly version: Revision
  readonly name: string
  /** Undefined where there was none. */
  readonly before: ApiObject | undefined
  /** Undefined where it is gone. */
  readonly after: ApiObject | undefined
}

/** What a change makes of an object: undefined takes it away. */
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
 * What happened, as far as anybody can know: what was acknowledged, and between its first and last version what a
 * witness saw. Of what is told differently, the writer's answer counts, then the first witness; the others are found
 * to have seen something else.
 */
export class Truth {
  /** Where everything is known, in ascending order of versions. */
  readonly changes: readonly TrueChange[]
  /** Acknowledged where a witness was looking, and seen by nobody. */
  readonly lost: readonly WriteRecord[]
  readonly #byVersion = new Map<Revision, TrueChange>()
  readonly #spans: readonly Span[]
  /** Per name, ascending: what it was from a version on. */
  readonly #lives = new Map<string, { readonly from: Revision; readonly object: ApiObject | undefined }[]>()

  /** @throws Error when no witness has seen a whole initial state: nothing can be said of such a run. */
  constructor(log: RunLog) {
    const witnesses = log.watchers.filter(({ witness }) => witness)
    const sessions = witnesses.flatMap(sessionsOf)
    this.#spans = sessions.flatMap(spanOf).sort((a, b) => a.from - b.from)
    if (this.#spans.length === 0) throw new Error('no witness of this run has seen a whole initial state')
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

  /** Whether a change of this version could not have escaped the witnesses. */
  covers(version: Revision): boolean {
    return this.#spans.some(({ from, to }) => version > from && version <= to)
  }

  /** Whether the whole state at this version is known. */
  knowsState(version: Revision): boolean {
    return this.#spans.some(({ from, to }) => version >= from && version <= to)
  }

  at(version: Revision): TrueChange | undefined {
    return this.#byVersion.get(version)
  }

  /** The changes after `from` up to and including `to`. */
  between(from: Revision, to: Revision): readonly TrueChange[] {
    return this.changes.slice(firstAfter(this.changes, from), firstAfter(this.changes, to))
  }

  /** What there was at a version whose state is known. */
  stateAt(version: Revision): Map<string, ApiObject> {
    const state = new Map<string, ApiObject>()
    for (const [name, life] of this.#lives) {
      const object = life.findLast(({ from }) => from <= version)?.object
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
      const life = this.#lives.get(name)
      if (life === undefined) this.#lives.set(name, [{ from, object }])
      else life.push({ from, object })
    }
    // Where nobody was looking, the next whole state says what has become of things.
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

/** What a watcher must be told of a change, or undefined where it does not concern it. */
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

/** An update that empties the finalizers of a deleting object takes it away; a delete that meets some does not. */
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

/** Index of the first change after a version. */
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
