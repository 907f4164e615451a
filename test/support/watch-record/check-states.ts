import type { ApiObject, Revision } from '@setpoint/controller-runtime/api'
import type { Guarantee, Violation } from './guarantees.ts'
import type { ListRecord, WatcherRecord } from './run-log.ts'
import { type Session, type Stream, sessionsOf } from './stream.ts'
import { same, type Truth } from './truth.ts'

/** Checks that a watch without a version starts with the complete state. */
export function checkInitialStates(watcher: WatcherRecord, truth: Truth): Violation[] {
  return sessionsOf(watcher).flatMap(session => checkBeginning(watcher, truth, session))
}

function checkBeginning(watcher: WatcherRecord, truth: Truth, session: Session): Violation[] {
  const { name: seenBy, selects } = watcher
  const [first] = session
  if (first === undefined || first.connection.start !== 'present') return []
  const guarantee = 'initial state'
  const violations = checkForm(seenBy, first)
  const { initial, initialVersion: version } = first
  if (version === undefined) {
    // Interrupted: the client knows nothing, and must start again.
    if (session.length > 1) {
      const message = 'the watch was resumed, but its initial events never ended'
      violations.push({ guarantee, seenBy, message })
    }
    return violations
  }
  const objects = initial.map(({ object }) => object)
  return [
    ...violations,
    ...checkState({ guarantee, seenBy, selects, version, objects }, truth),
    ...checkFresh(seenBy, version, first.connection.acknowledged),
  ]
}

/** Each object once, as ADDED, in name order. */
function checkForm(seenBy: string, { initial }: Stream): Violation[] {
  const violations: Violation[] = []
  for (const [n, { type, name, version }] of initial.entries()) {
    const what = `${type} ${name} of version ${version}`
    if (type !== 'ADDED') {
      const message = `${what} was sent among the initial events`
      violations.push({ guarantee: 'initial state', seenBy, message })
    }
    const before = initial[n - 1]?.name
    if (before !== undefined && name <= before) {
      const message = `${what} was sent after ${before} among the initial events`
      violations.push({ guarantee: 'initial state', seenBy, message })
    }
  }
  return violations
}

export function checkList({ name, ...list }: ListRecord, truth: Truth): Violation[] {
  return [
    ...checkState({ guarantee: 'list', seenBy: name, ...list }, truth),
    ...checkFresh(name, list.version, list.acknowledged),
  ]
}

interface State {
  readonly guarantee: Guarantee
  readonly seenBy: string
  readonly selects: (object: ApiObject) => boolean
  readonly version: Revision
  readonly objects: readonly ApiObject[]
}

function checkState({ guarantee, seenBy, selects, version, objects }: State, truth: Truth): Violation[] {
  if (!truth.knowsState(version)) return []
  const violations: Violation[] = []
  const expected = truth.stateAt(version)
  for (const [name, object] of expected) if (!selects(object)) expected.delete(name)
  const say = (message: string) =>
    violations.push({ guarantee, seenBy, message: `at version ${version} ${message}` })
  for (const object of objects) {
    const { name } = object.metadata
    const known = expected.get(name)
    expected.delete(name)
    if (known === undefined) say(`${name} of version ${object.metadata.version} should not be included`)
    else if (!same(known, object))
      say(`${name} is ${JSON.stringify(object)} instead of ${JSON.stringify(known)}`)
  }
  for (const [name, { metadata }] of expected) say(`${name} of version ${metadata.version} is missing`)
  return violations
}

function checkFresh(seenBy: string, version: Revision, acknowledged: Revision): Violation[] {
  if (version >= acknowledged) return []
  const message = `the state of version ${version} was sent after version ${acknowledged} had been acknowledged`
  return [{ guarantee: 'fresh', seenBy, message }]
}
