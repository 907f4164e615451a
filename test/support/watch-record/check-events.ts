import type { Revision } from '@setpoint/controller-runtime/api'
import type { Violation } from './guarantees.ts'
import type { ChangeRecord, WatcherRecord } from './run-log.ts'
import { isChange, type Session, sessionsOf } from './stream.ts'
import { eventOf, same, type Truth } from './truth.ts'

/**
 * Checks that a watcher received exactly the matching changes.
 *
 * @param upTo the version that it must have reached, if known
 */
export function checkEvents(watcher: WatcherRecord, truth: Truth, upTo: Revision | undefined): Violation[] {
  const sessions = sessionsOf(watcher)
  const violations = sessions.flatMap(session => [
    ...session.flatMap(({ live }) =>
      live.filter(isChange).flatMap(event => checkEvent(watcher, truth, event)),
    ),
    ...checkReliable(watcher, truth, session),
  ])
  const knows = sessions.at(-1) && lastKnown(sessions.at(-1) ?? [])
  if (upTo !== undefined && (knows === undefined || knows < upTo)) {
    const how = knows === undefined ? 'has no complete state' : `reached only version ${knows}`
    const message = `the watcher ${how}, but the run reached version ${upTo}`
    violations.push({ guarantee: 'reliable', seenBy: watcher.name, message })
  }
  return violations
}

function checkEvent(
  { name: seenBy, selects }: WatcherRecord,
  truth: Truth,
  { type, name, version, object }: ChangeRecord,
): Violation[] {
  if (!truth.covers(version)) return []
  const what = `${type} ${name} of version ${version}`
  const change = truth.at(version)
  if (change === undefined) {
    return [
      { guarantee: 'genuine', seenBy, message: `${what} was sent, but nothing changed at that version` },
    ]
  }
  if (change.name !== name) {
    return [
      {
        guarantee: 'atomic',
        seenBy,
        message: `${what} was sent, but that version is a change of ${change.name}`,
      },
    ]
  }
  const expected = eventOf(change, selects)
  if (expected === undefined) {
    return [{ guarantee: 'filter', seenBy, message: `${what} does not match the watcher` }]
  }
  if (expected.type !== type) {
    return [{ guarantee: 'filter', seenBy, message: `${what} should be ${expected.type}` }]
  }
  if (same(expected.object, object)) return []
  const message = `${what} has ${JSON.stringify(object)} instead of ${JSON.stringify(expected.object)}`
  return [{ guarantee: type === 'DELETED' ? 'previous state' : 'genuine', seenBy, message }]
}

function checkReliable(
  { name: seenBy, selects }: WatcherRecord,
  truth: Truth,
  session: Session,
): Violation[] {
  const [first] = session
  if (first === undefined) return []
  const { start } = first.connection
  const from = start === 'present' ? first.initialVersion : start
  const to = lastKnown(session)
  if (from === undefined || to === undefined) return []
  const seen = new Set(session.flatMap(({ live }) => live.filter(isChange).map(({ version }) => version)))
  const violations: Violation[] = []
  for (const change of truth.between(from, to)) {
    if (seen.has(change.version)) continue
    const expected = eventOf(change, selects)
    if (expected === undefined) continue
    const message = `${expected.type} ${change.name} of version ${change.version} was never sent to a watcher that knows versions ${from} to ${to}`
    violations.push({ guarantee: 'reliable', seenBy, message })
  }
  return violations
}

/** A connection resumed from a version claims to know everything up to it. */
function lastKnown(session: Session): Revision | undefined {
  return session.reduce<Revision | undefined>(
    (max, { knows }) => (knows !== undefined && (max === undefined || knows > max) ? knows : max),
    undefined,
  )
}
