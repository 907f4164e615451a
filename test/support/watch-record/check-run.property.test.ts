import { type ApiObject, type ChangeType, toRevision } from '@setpoint/controller-runtime/api'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { gadget } from '../sdk/sample-models.ts'
import { checkRun } from './check-run.ts'
import type { ChangeRecord, EventRecord, RunLog, WriteRecord } from './run-log.ts'
import { isChange } from './stream.ts'
import { eventOf, type TrueChange } from './truth.ts'

const at = toRevision
const colours = ['red', 'green', 'blue'] as const
const names = ['a', 'b', 'c', 'd']

/** One step of a history: a change of an object, with or without a response to its writer. */
interface Step {
  name: string
  colour: string
  deletes: boolean
  /** How much the version rises. */
  rise: number
  told: 'acknowledged' | 'unknown'
  /** A further write that never happened. */
  beside: 'refused' | 'unknown' | undefined
}

interface Plan {
  watches: readonly string[] | undefined
  /** The connections: how many changes happen before each is cut, and whether its initial events are cut too. */
  lengths: { changes: number; cutsInitial: boolean; bookmarks: boolean }[]
}

const step = fc.record<Step>({
  name: fc.constantFrom(...names),
  colour: fc.constantFrom(...colours),
  deletes: fc.boolean(),
  rise: fc.integer({ min: 1, max: 3 }),
  told: fc.constantFrom('acknowledged', 'unknown'),
  beside: fc.constantFrom('refused', 'unknown', undefined),
})

const plan = fc.record<Plan>({
  watches: fc.option(fc.uniqueArray(fc.constantFrom(...colours), { minLength: 1, maxLength: 2 }), {
    nil: undefined,
  }),
  lengths: fc.array(fc.record({ changes: fc.nat(6), cutsInitial: fc.boolean(), bookmarks: fc.boolean() }), {
    minLength: 1,
    maxLength: 5,
  }),
})

const world = fc.record({
  before: fc.array(step, { maxLength: 6 }),
  steps: fc.array(step, { minLength: 1, maxLength: 30 }),
  plans: fc.array(plan, { minLength: 1, maxLength: 3 }),
  witnesses: fc.tuple(plan, plan),
})

function colourOf({ spec }: ApiObject): unknown {
  return typeof spec === 'object' && spec !== null ? Reflect.get(spec, 'colour') : undefined
}

function markOf({ spec }: ApiObject): string | undefined {
  const mark: unknown = typeof spec === 'object' && spec !== null ? Reflect.get(spec, 'mark') : undefined
  return typeof mark === 'string' ? mark : undefined
}

/** The true history, and the responses to its writers. */
function happen(steps: readonly Step[]): { changes: TrueChange[]; writes: WriteRecord[]; end: number } {
  const changes: TrueChange[] = []
  const writes: WriteRecord[] = []
  const state = new Map<string, ApiObject>()
  let version = 10
  for (const [n, { name, colour, deletes, rise, told, beside }] of steps.entries()) {
    version += rise
    const before = state.get(name)
    const isDelete = deletes && before !== undefined
    const mark = isDelete ? undefined : `m${n}`
    const object = gadget(name, version, { size: n })
    const after = isDelete ? undefined : { ...object, spec: { ...object.spec, colour, mark } }
    if (after === undefined) state.delete(name)
    else state.set(name, after)
    changes.push({ version: at(version), name, before, after })
    const verb = isDelete ? 'delete' : before === undefined ? 'create' : 'update'
    const acknowledged = {
      kind: 'acknowledged',
      version: at(version),
      ...(after && { object: after }),
    } as const
    writes.push({ verb, name, mark, outcome: told === 'acknowledged' ? acknowledged : { kind: 'unknown' } })
    if (beside !== undefined) {
      const outcome =
        beside === 'refused' ? ({ kind: 'refused', why: '503' } as const) : ({ kind: beside } as const)
      writes.push({ verb: 'update', name, mark: `beside-${n}`, outcome })
    }
  }
  return { changes, writes, end: version }
}

interface Connection {
  start: RunLog['watchers'][number]['connections'][number]['start']
  acknowledged: ReturnType<typeof at>
  events: EventRecord[]
  /** Whether its client has dropped its events because it was cut during the initial events. */
  useless: boolean
}

/** The events of a correct server for a planned watcher, from a point in the history to its end. */
function watch(changes: readonly TrueChange[], first: number, end: number, { watches, lengths }: Plan) {
  const selects = (object: ApiObject) => watches === undefined || watches.includes(String(colourOf(object)))
  const connections: Connection[] = []
  let known: ReturnType<typeof at> | undefined
  let index = first
  const versionAt = (next: number) => changes[next - 1]?.version ?? at(10)
  const stateAt = (next: number) => {
    const state = new Map<string, ApiObject>()
    for (const { name, after } of changes.slice(0, next)) {
      if (after === undefined) state.delete(name)
      else state.set(name, after)
    }
    return [...state.values()].filter(selects).sort((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1))
  }
  const all = [...lengths, { changes: changes.length, cutsInitial: false, bookmarks: true }]
  for (const [n, length] of all.entries()) {
    const last = n === all.length - 1
    const events: EventRecord[] = []
    const stop = Math.min(changes.length, index + length.changes)
    const start = known ?? 'present'
    const acknowledged = at(0)
    if (known === undefined) {
      const objects = stateAt(index)
      const sent = length.cutsInitial ? objects.slice(0, objects.length >> 1) : objects
      for (const object of sent) {
        const { name, version } = object.metadata
        events.push({ type: 'ADDED', name, version: at(Number(version)), object })
      }
      connections.push({ start, acknowledged, events, useless: length.cutsInitial })
      if (length.cutsInitial) {
        index = stop
        continue
      }
      events.push({ type: 'BOOKMARK', version: versionAt(index), endsInitialEvents: true })
      known = versionAt(index)
    } else connections.push({ start, acknowledged, events, useless: false })
    const resumed = known
    for (const change of changes.slice(0, stop)) {
      if (change.version <= resumed) continue
      const told = eventOf(change, selects)
      if (told !== undefined) {
        events.push({ ...told, name: change.name, version: change.version })
        known = change.version
      }
      if (length.bookmarks && change.version % 3 === 0) {
        events.push({ type: 'BOOKMARK', version: change.version, endsInitialEvents: false })
        known = change.version
      }
    }
    index = Math.max(index, stop)
    if (last) events.push({ type: 'BOOKMARK', version: at(end + 1), endsInitialEvents: false })
  }
  return { selects, connections }
}

function run({ before, steps, plans, witnesses }: typeof world extends fc.Arbitrary<infer T> ? T : never) {
  const { changes, writes, end } = happen([...before, ...steps])
  const first = before.length
  const watchers = [
    ...witnesses.map((each, n) => ({
      name: `witness-${n}`,
      witness: true,
      ...watch(changes, first, end, {
        watches: undefined,
        lengths: each.lengths.map(length => ({ ...length, cutsInitial: false })),
      }),
    })),
    ...plans.map((each, n) => ({
      name: `watcher-${n}`,
      witness: false,
      ...watch(changes, first, end, each),
    })),
  ]
  const log: RunLog = { writes, watchers, lists: [], otherWriters: false, markOf, uniqueOf: () => [] }
  return { log, watchers, upTo: at(end + 1) }
}

type Mutation = 'drop' | 'double' | 'swap' | 'type' | 'content' | 'version' | 'name'
const types: readonly ChangeType[] = ['ADDED', 'MODIFIED', 'DELETED']

/** Changes one event of one connection. Returns false if that is not possible. */
function mutate(connections: Connection[], mutation: Mutation, seed: number): boolean {
  const places = connections
    .filter(({ useless }) => !useless)
    .flatMap(({ events }) =>
      events.flatMap((event, index) => (isChange(event) ? [{ events, event, index }] : [])),
    )
  const place = places[seed % Math.max(1, places.length)]
  if (place === undefined) return false
  const { events, event, index } = place
  const put = (...replacement: ChangeRecord[]) => void events.splice(index, 1, ...replacement)
  const { object } = event
  switch (mutation) {
    case 'drop':
      put()
      return true
    case 'double':
      put(event, event)
      return true
    case 'swap': {
      const next = events[index + 1]
      if (next === undefined || !isChange(next)) return false
      events.splice(index, 2, next, event)
      return true
    }
    case 'type': {
      const others = types.filter(type => type !== event.type)
      put({ ...event, type: others[seed % others.length] ?? event.type })
      return true
    }
    case 'content':
      put({ ...event, object: { ...object, spec: { colour: 'none', mark: markOf(object) } } })
      return true
    case 'version': {
      const version = event.version + ([-2, -1, 1, 2, 50][seed % 5] ?? 1)
      const text = String(version)
      const metadata = { ...object.metadata, version: text, resourceVersion: text }
      put({ ...event, version: at(version), object: { ...object, metadata } })
      return true
    }
    case 'name': {
      const name = `${event.name}x`
      put({ ...event, name, object: { ...object, metadata: { ...object.metadata, name } } })
      return true
    }
  }
}

describe('any run of a correct server', () => {
  it('has no violation, for any watchers and connections', () => {
    fc.assert(
      fc.property(world, given => {
        const { log, upTo } = run(given)
        expect(checkRun(log, { upTo })).toEqual([])
      }),
      { numRuns: 500 },
    )
  })

  it.each<Mutation>(['drop', 'double', 'swap', 'type', 'content', 'version', 'name'])(
    'has a violation after a single changed event (%s)',
    mutation => {
      let mutated = 0
      fc.assert(
        fc.property(world, fc.nat(), fc.nat(), (given, who, seed) => {
          const { log, watchers, upTo } = run(given)
          const watcher = watchers[who % watchers.length]
          if (watcher === undefined || !mutate(watcher.connections, mutation, seed)) return
          mutated += 1
          expect(checkRun(log, { upTo })).not.toEqual([])
        }),
        { numRuns: 400 },
      )
      expect(mutated).toBeGreaterThan(50)
    },
  )
})
