import { type Commit, type History, type RecordChange, titleOf, type Violation } from '../history.ts'
import { gears } from '../kinds.ts'
import { specOf } from '../objects.ts'

const judge = 'unique values'

/**
 * No two objects hold one value of a unique index at any revision. As long as the index is in force, an object gets a value
 * only if it holds it, and while the values are computed no object gets any. A refused duplicate had a holder.
 */
export function judgeUniqueValues(history: History): Violation[] {
  const { commits, calls, records } = history
  const found: Violation[] = []
  const kinds = new Map(calls.map(({ resource }) => [titleOf(resource), resource]))
  /** The object that holds a value, by kind and value. */
  const holders = new Map<string, string>()
  const before = new Map<string, Commit>()
  for (const commit of commits) {
    const { resource, namespace, name, object, revision, at } = commit
    const field = kinds.get(resource)?.unique
    if (field === undefined) continue
    const say = (message: string) =>
      found.push({ judge, at, message: `${name} has at ${revision} ${message}` })
    const id = `${resource}/${namespace ?? ''}/${name}`
    const previous = before.get(id)
    for (const value of holdsOf(previous, field)) {
      const key = `${resource}=${value}`
      if (holders.get(key) === id) holders.delete(key)
    }
    for (const value of holdsOf(commit, field)) {
      const key = `${resource}=${value}`
      const other = holders.get(key)
      if (other !== undefined && other !== id) say(`the value ${value} of ${other}`)
      holders.set(key, id)
    }
    before.set(id, commit)
    const value = specOf(object)[field]
    if (value === undefined || commit.isRestored) continue
    const uniqueness = uniquenessAt(records, resource, revision)
    if (value === specOf(previous?.object)[field]) {
      const hasLost = holdsOf(previous, field).length > 0 && holdsOf(commit, field).length === 0
      if (hasLost && uniqueness === 'in force') say(`no longer its value ${String(value)}`)
      continue
    }
    // Objects of a definition may take values meanwhile, which older ones then take from them.
    const mayTake = resource === titleOf(gears)
    if (uniqueness === 'recomputing' && !mayTake)
      say(`got the value ${String(value)} while unique values were computed`)
    if (uniqueness === 'in force' && !holdsOf(commit, field).includes(String(value)))
      say(`got the value ${String(value)} without holding it`)
  }
  const computed = records.flatMap(record => judgeComputed(record, history))
  return [...found, ...computed, ...calls.flatMap(call => judgeDuplicate(call, commits))]
}

/** Once the values of a kind have been computed, the oldest object that has a value holds it. */
function judgeComputed(record: RecordChange, { records, commits, calls }: History): Violation[] {
  const { resource, revision } = record
  const before = records.findLast(each => each.resource === resource && each.revision < revision)
  const field = calls.find(call => titleOf(call.resource) === resource)?.resource.unique
  if (field === undefined || record.uniqueness !== 'in force' || before?.uniqueness !== 'recomputing')
    return []
  if (resource === titleOf(gears)) return []
  /** The objects by name, in the order of their creation. */
  const objects = new Map<string, Commit>()
  /** The values of objects that were deleted meanwhile, whose next object may have been looked at before. */
  const free = new Set<string | undefined>()
  for (const commit of commits) {
    if (commit.resource !== resource) continue
    if (commit.revision > revision) break
    const previous = objects.get(commit.name)
    if (commit.object !== undefined) objects.set(commit.name, commit)
    else objects.delete(commit.name)
    if (commit.object === undefined && commit.revision > before.revision) free.add(valueIn(previous, field))
  }
  const found: Violation[] = []
  const seen = new Set<string>()
  for (const commit of objects.values()) {
    const value = valueIn(commit, field)
    if (value === undefined || seen.has(value) || free.has(value)) continue
    seen.add(value)
    if (!holdsOf(commit, field).includes(value))
      found.push({
        judge,
        at: commit.at,
        message: `${commit.name} does not hold its value ${value} at ${revision}`,
      })
  }
  return found
}

/** Returns the values that an object holds, by default the one that it has. */
function holdsOf(commit: Commit | undefined, field: string): readonly string[] {
  const value = valueIn(commit, field)
  return commit?.holds ?? (value === undefined ? [] : [value])
}

function valueIn(commit: Commit | undefined, field: string): string | undefined {
  const value = specOf(commit?.object)[field]
  return value === undefined ? undefined : String(value)
}

function uniquenessAt(records: History['records'], resource: string, revision: number) {
  const last = records.findLast(each => each.resource === resource && each.revision <= revision)
  return last?.uniqueness ?? 'in force'
}

function judgeDuplicate(call: History['calls'][number], commits: History['commits']): Violation[] {
  const { outcome, resource } = call
  if (call.type !== 'write' || outcome.type !== 'responded' || outcome.status !== 409) return []
  if (!(JSON.stringify(outcome.body) ?? '').includes('FieldValueDuplicate')) return []
  const { unique } = resource
  const value = unique === undefined ? undefined : call.request.spec?.[unique]
  const { namespace, name } = call.request
  const wasHeld = commits.some(
    each =>
      each.resource === titleOf(resource) &&
      !(each.name === name && each.namespace === namespace) &&
      each.at <= outcome.at &&
      unique !== undefined &&
      holdsOf(each, unique).includes(String(value)) &&
      isStillThere(each, commits, call.at),
  )
  if (wasHeld) return []
  return [
    {
      judge,
      at: call.at,
      message: `call ${call.id} was refused for the value ${String(value)}, which nobody had`,
    },
  ]
}

/** Returns whether no later change of the object had been committed before a time. */
function isStillThere(
  commit: History['commits'][number],
  commits: History['commits'],
  time: number,
): boolean {
  const next = commits.find(
    each =>
      each.revision > commit.revision &&
      each.resource === commit.resource &&
      each.namespace === commit.namespace &&
      each.name === commit.name,
  )
  return next === undefined || next.at >= time
}
