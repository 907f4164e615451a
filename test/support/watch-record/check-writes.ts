import type { Violation } from './guarantees.ts'
import type { RunLog, WriteRecord } from './run-log.ts'
import { same, type TrueChange, type Truth } from './truth.ts'

/** Checks that the outcomes reported to writers are what happened. */
export function checkWrites(log: RunLog, truth: Truth): Violation[] {
  return [...checkAcknowledged(log, truth), ...checkMarks(log, truth), ...checkDeletions(log, truth)]
}

function checkAcknowledged({ writes, markOf }: RunLog, truth: Truth): Violation[] {
  const violations: Violation[] = []
  const say = (write: WriteRecord, what: string) =>
    violations.push(violation('acknowledged', `${title(write)} ${what}`))
  for (const write of truth.lost) say(write, 'was acknowledged, but no watcher has seen it')
  const lost = new Set(truth.lost)
  for (const write of writes) {
    const { verb, name, mark, outcome } = write
    if (outcome.kind !== 'acknowledged' || lost.has(write) || !truth.covers(outcome.version)) continue
    const change = truth.at(outcome.version)
    if (change === undefined || change.name !== name) {
      say(write, `was acknowledged, but that version is a change of ${change?.name ?? 'nothing'}`)
      continue
    }
    const { before, after } = change
    const object = after ?? before
    const isDeleting = object?.metadata.deletionTimestamp !== undefined
    if ((verb === 'delete') !== (after === undefined) && !isDeleting) {
      say(
        write,
        `was acknowledged, but at that version ${name} ${after === undefined ? 'does not exist' : 'exists'}`,
      )
    } else if (after === undefined) {
      // Its last content is checked on the watches.
    } else if (mark !== undefined && markOf(after) !== mark) {
      say(write, `was acknowledged, but that version has the mark ${markOf(after)}`)
    } else if (outcome.object !== undefined && !same(after, outcome.object)) {
      say(write, `returned ${JSON.stringify(outcome.object)} instead of ${JSON.stringify(after)}`)
    }
  }
  return violations
}

/** A mark identifies the write that caused a change. */
function checkMarks({ writes, otherWriters, markOf }: RunLog, truth: Truth): Violation[] {
  const violations: Violation[] = []
  const made = new Map<string, TrueChange[]>()
  for (const change of truth.changes) {
    const mark = change.after && markOf(change.after)
    if (mark === undefined || (change.before !== undefined && markOf(change.before) === mark)) continue
    const changes = made.get(mark)
    if (changes === undefined) made.set(mark, [change])
    else changes.push(change)
  }
  for (const write of writes) {
    const changes = made.get(write.mark ?? '') ?? []
    made.delete(write.mark ?? '')
    const versions = changes.map(({ version }) => version).join(' and ')
    if (changes.length > 0 && write.outcome.kind === 'refused') {
      const message = `${title(write)} was refused (${write.outcome.why}), but happened at version ${versions}`
      violations.push(violation('refused', message))
    } else if (changes.length > 1) {
      violations.push(violation('once', `${title(write)} happened at versions ${versions}`))
    }
  }
  if (otherWriters) return violations
  for (const [mark, [change]] of made) {
    const message = `version ${change?.version} of ${change?.name} has the mark ${mark}, which no writer wrote`
    violations.push(violation('genuine', message))
  }
  return violations
}

/** Deletions have no mark: their number is compared with the number of delete requests. */
function checkDeletions({ writes, otherWriters }: RunLog, truth: Truth): Violation[] {
  if (otherWriters) return []
  const acknowledged = new Set<number>()
  const unknown = new Map<string, number>()
  const refused = new Map<string, WriteRecord>()
  for (const write of writes) {
    if (write.outcome.kind === 'acknowledged') acknowledged.add(write.outcome.version)
    else if (write.verb !== 'delete') continue
    else if (write.outcome.kind === 'unknown') unknown.set(write.name, (unknown.get(write.name) ?? 0) + 1)
    else refused.set(write.name, write)
  }
  const violations: Violation[] = []
  for (const { version, name, before, after } of truth.changes) {
    if (after !== undefined || acknowledged.has(version)) continue
    // Removed by the write that removed the last finalizer.
    if (before?.metadata.deletionTimestamp !== undefined) continue
    const left = unknown.get(name) ?? 0
    unknown.set(name, left - 1)
    if (left > 0) continue
    const write = refused.get(name)
    violations.push(
      write === undefined
        ? violation('genuine', `${name} was deleted at version ${version}, which no writer requested`)
        : violation('refused', `${title(write)} was refused, but ${name} was deleted at version ${version}`),
    )
  }
  return violations
}

function violation(guarantee: Violation['guarantee'], message: string): Violation {
  return { guarantee, seenBy: undefined, message }
}

function title({ verb, name, mark, outcome }: WriteRecord): string {
  const version = outcome.kind === 'acknowledged' ? ` of version ${outcome.version}` : ''
  return `${verb} ${name}${mark === undefined ? '' : ` (${mark})`}${version}`
}
